"""Insights over HTTP: each run is counted once, and only authorized callers see the totals."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gigafactory.domain.insights.observation import CellUpdate, TaskFeatures
from gigafactory.domain.insights.observation_tally import ObservationBatch
from gigafactory.domain.insights.slo import Objective
from gigafactory.domain.insights.tally import RunCounts, Tally, TallyIncrement
from gigafactory.domain.job.change import RecordChange
from tests.support.api_server import Server, Worker, a_coordinator
from tests.support.jobs_api import count_ended_runs, submit_claim_report
from tests.support.observations import NOTES, a_cell, an_observation

USAGE = {"engine": "claude", "tokensIn": 100, "tokensOut": 20, "costUsd": "0.25"}


async def ran(
    admin: httpx.AsyncClient, worker: Worker, name: str, **manifest: object
) -> dict[str, Any]:
    """Submit a job, complete its first run and return the grant."""
    result = ({"stage": "building"}, {"stage": "review", "usage": USAGE, "wallSec": 2.5})
    return await submit_claim_report(admin, worker, *result, name=name, engine="claude", **manifest)


async def insights(client: httpx.AsyncClient, **query: str) -> Any:  # noqa: ANN401 - plain JSON values
    """Return the insights for this query."""
    answer = await client.get("/insights", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_ended_runs_are_counted_in_insights(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await ran(admin, worker, "a")
    await admin.post("/jobs", json={"manifest": {"name": "b"}})
    grant = await worker.granted()
    await worker.report(grant, stage="failed", result="crash", reason="segfault")
    await count_ended_runs(server.coordinator)
    result = await insights(admin, by="engine,product,factory,day")
    assert (result["total"]["runs"], result["total"]["jobs"]) == (2, 2)
    assert result["total"]["results"] == {"crash": 1, "ok": 1}
    assert (result["total"]["costUsd"], result["total"]["costNanoUsd"]) == ("0.25", 250_000_000)
    assert (result["total"]["firstPass"], result["total"]["unmetered"]) == (0.5, 1)
    assert [one["group"] for one in result["by"]["product"]] == ["notes"]
    assert [one["runs"] for one in result["by"]["day"]] == [2]
    assert result["by"]["factory"][0]["tokensIn"] == 100
    engine = {one["group"]: one for one in result["by"]["engine"]}["claude"]
    assert engine["wallSec"] >= 2.5


async def test_retry_counts_neither_as_a_new_job_nor_as_a_first_try(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    grant = await ran(admin, worker, "a")
    job = grant["job"]["id"]
    asked = await admin.post(f"/jobs/{job}/actions/request-changes", json={"reason": "tests too"})
    assert asked.status_code == 200, asked.text
    again = await worker.granted()
    await worker.report(again, stage="building")
    await worker.report(again, stage="review", usage=USAGE)
    assert (await admin.post(f"/jobs/{job}/actions/approve", json={})).status_code == 200
    await count_ended_runs(server.coordinator)
    total = (await insights(admin))["total"]
    assert (total["runs"], total["jobs"], total["firstTries"], total["firstPasses"]) == (2, 1, 1, 1)
    assert (total["changesRequested"], total["approved"], total["rejected"]) == (1, 1, 0)
    runs = (await admin.get(f"/jobs/{job}/runs")).json()["runs"]
    assert [run["review"] for run in runs] == ["changes_requested", "approved"]


async def test_usage_reported_after_a_cancel_is_added(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "engine": "claude"}})
    grant = await worker.granted()
    job = grant["job"]["id"]
    assert (await admin.post(f"/jobs/{job}/actions/cancel", json={})).status_code == 200
    await count_ended_runs(server.coordinator)
    assert (await insights(admin))["total"]["costUsd"] == "0"
    assert (await worker.report(grant, usage=USAGE)).status_code == 409
    await count_ended_runs(server.coordinator)
    total = (await insights(admin))["total"]
    assert (total["runs"], total["costUsd"], total["results"]) == (1, "0.25", {"cancelled": 1})


async def test_insights_cover_only_the_products_of_the_caller(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await ran(admin, worker, "a")
    async with server.client(product="shop") as shop:
        await ran(shop, worker, "b")
        await count_ended_runs(server.coordinator)
        assert (await insights(shop))["total"]["runs"] == 1
    async with server.client(product=None) as everything:
        result = await insights(everything, by="product")
        assert [one["group"] for one in result["by"]["product"]] == ["notes", "shop"]
    token = await server.token("ann", products=["notes", "other"])
    async with server.client(token, product=None) as some:
        result = await insights(some, by="product")
        assert result["total"]["runs"] == 1
        assert [one["group"] for one in result["by"]["product"]] == ["notes"]
    async with server.client(token, product="shop") as other:
        assert (await other.get("/insights")).status_code == 403


async def test_insights_of_one_job_include_its_running_runs(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    grant = await ran(admin, worker, "a")
    await ran(admin, worker, "b")
    result = await insights(admin, by="job,engine", job=grant["job"]["id"])
    assert [one["group"] for one in result["by"]["job"]] == [grant["job"]["id"]]
    assert (result["total"]["runs"], result["total"]["running"]) == (1, 0)
    await admin.post("/jobs", json={"manifest": {"name": "c"}})
    await worker.granted()
    assert (await insights(admin, job="c"))["total"]["running"] == 1
    assert (await admin.get("/insights", params={"job": "nobody"})).status_code == 404


async def test_insights_include_waits_advice_and_objectives(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    grant = await ran(admin, worker, "a", repo="notes", ship="none")
    job = grant["job"]["id"]
    for action in ("approve", "ship"):
        assert (await admin.post(f"/jobs/{job}/actions/{action}", json={})).status_code == 200
    await count_ended_runs(server.coordinator)
    result = await insights(admin)
    [engine], [repo] = result["by"]["engine"], result["by"]["repo"]
    for one in (engine, repo, result["total"]):
        assert (one["waits"], one["waitSec"] >= 0) == (1, True)
    assert (result["total"]["shipped"], result["total"]["escaped"]) == (1, 0)
    assert result["total"]["costOfShippedUsd"] == "0.25"
    assert [(one["by"], one["group"]) for one in result["advice"]] == [
        ("all", "all"),
        ("repo", "notes"),
    ]
    for one in result["advice"]:
        assert (one["engine"], one["firstTries"]) == (None, 1)
        assert one["says"].startswith("not enough runs")
    objectives = {one["objective"]: one for one in result["objectives"]}
    assert objectives.keys() == set(Objective)
    first = objectives["first-pass"]
    assert (first["wrong"], first["of"], first["left"], first["allowed"]) == (0, 1, 1.0, 0.3)
    assert objectives["utilization"]["left"] is None, "what was not measured is not made up"
    assert [one["by"] for one in (await insights(admin, by="day"))["advice"]] == ["all"]
    of_one = await insights(admin, job=job)
    assert (of_one["advice"], of_one["objectives"]) == ([], [])


async def test_engine_advice_covers_only_the_products_of_the_caller(
    server: Server, admin: httpx.AsyncClient
) -> None:
    batch = ObservationBatch()
    month = f"{server.coordinator.clock.now():%Y-%m}"
    theirs = TaskFeatures("shop", "shop")
    for task, better, worse in ((NOTES, "claude", "codex"), (theirs, "codex", "claude")):
        batch.add(month, [CellUpdate(a_cell(better, task=task), an_observation(50, 48))])
        batch.add(month, [CellUpdate(a_cell(worse, task=task), an_observation(50, 5))])
    old = Tally(key=f"notes/repo+engine/m{month}/notes\tpi", counts=RunCounts(first_tries=99))
    await server.coordinator.store.commit(*batch.writes({}), RecordChange(before=None, after=old))
    result = (await insights(admin, by="profile,repo"))["advice"]
    assert [(one["by"], one["group"], one["engine"], one["firstTries"]) for one in result] == [
        ("all", "all", "claude", 100),
        ("profile", "coder", "claude", 100),
        ("repo", "notes", "claude", 100),
    ]
    assert result[0]["says"].startswith(
        "claude passes 96 % of first attempts (n = 50): at comparable"
    )
    async with server.client(product=None) as everything:
        result = (await insights(everything, by="repo"))["advice"]
    assert [(one["group"], one["engine"], one["firstTries"]) for one in result] == [
        ("all", None, 200),
        ("notes", "claude", 100),
        ("shop", "codex", 100),
    ]
    assert (await admin.get("/routing")).json()["rollouts"] == [], "no product uses routing"


async def test_since_filters_insights_by_day(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await ran(admin, worker, "a")
    await count_ended_runs(server.coordinator)
    today = server.coordinator.clock.now().date()
    assert (await insights(admin, since=today.isoformat()))["total"]["runs"] == 1
    assert (await insights(admin, since="2020-01-15"))["total"]["runs"] == 1
    assert (await insights(admin, since="2999-01-01"))["total"]["runs"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "mood"}, "by"),
        ({"by": "job"}, "by"),
        ({"since": "yesterday"}, "since"),
        ({"since": "0001-01-01"}, "since"),
        ({"sort": "x"}, "sort"),
    ],
)
async def test_invalid_insights_query_is_rejected(
    admin: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    answer = await admin.get("/insights", params=query)
    assert answer.status_code == 422
    assert answer.json()["faults"][0]["field"] == field


async def test_concurrent_talliers_count_each_run_once(
    server: Server, admin: httpx.AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        await ran(admin, worker, name)
    other = a_coordinator(tmp_path, store=server.coordinator.store)
    await other.load()
    both = [server.coordinator, other]
    while await server.coordinator.store.records(TallyIncrement):
        await asyncio.gather(*(each.leadership.acquire() for each in both))
        await asyncio.gather(*(each.tallier.step() for each in both))
    assert (await insights(admin))["total"]["runs"] == 3
