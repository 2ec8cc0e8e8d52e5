"""Learned routing over HTTP: learning from runs, recommendations and rollout modes."""

from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio
from msgspec.structs import replace

from gigafactory.domain.insights.exploration import KEPT_FOR, Episode
from gigafactory.domain.insights.observation import MONTHS_KEPT, month_offset
from gigafactory.domain.insights.observation_tally import OBSERVATIONS, observation_key
from gigafactory.domain.insights.routing_rollout import AB_SHARE, hash_fraction
from gigafactory.domain.insights.tally import ALL_PRODUCTS, Tally
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import SYSTEM, Server, Worker, a_coordinator
from tests.support.jobs_api import count_ended_runs
from tests.support.observations import a_cell

ENGINES: dict[str, object] = {"claude": {"seats": 4}, "codex": {"seats": 4}}


@pytest_asyncio.fixture
async def worker(worker: Worker) -> Worker:
    """A factory with two engines."""
    await worker.beat(engines=ENGINES)
    return worker


async def tried(
    admin: httpx.AsyncClient, worker: Worker, name: str, *, ok: bool = True, **manifest: object
) -> dict[str, Any]:
    """Submit a job, finish its first run with success or failure and return the grant."""
    sent = {"manifest": {"name": name, "repo": "notes", **manifest}, "body": "Do it."}
    (await admin.post("/jobs", json=sent)).raise_for_status()
    grant = await worker.granted()
    cost = "0.1" if grant["engine"] == "codex" else "0.4"
    usage = {"engine": grant["engine"], "model": "m", "tokensIn": 5, "costUsd": cost}
    (await worker.report(grant, stage="building", usage=usage)).raise_for_status()
    if ok:
        (await worker.report(grant, stage="review", result="ok")).raise_for_status()
    else:
        failed = {"jobId": grant["job"]["id"], "leaseEpoch": grant["leaseEpoch"]}
        failed |= {"result": "verify_failed", "reason": "no"}
        (await worker.http.post("/fail", json=failed)).raise_for_status()
    return grant


async def test_clearly_better_engine_is_recommended_with_its_evidence(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    for number in range(25):
        await tried(admin, worker, f"costly-{number}", engine="claude", ok=number % 2 == 0)
        await tried(admin, worker, f"cheap-{number}", engine="codex")
    await count_ended_runs(server.coordinator)
    data = (await admin.get("/routing")).raise_for_status().json()
    assert data["tries"] == 50
    assert data["rollouts"] == []
    (best,) = data["recommendations"]
    assert (best["repo"], best["engine"], best["tries"], best["others"]) == (
        *("notes", "codex"),
        *(25, 25),
    )
    assert best["success"]["low"] > 0.0
    assert best["cost"]["high"] < 0.0
    assert best["told"].startswith("repo notes: codex passes at once ")
    assert "% cheaper" in best["told"]
    assert "than the present mix (n = 25, 95 % intervals)" in best["told"]


async def test_observations_survive_a_restart(
    server: Server, admin: httpx.AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    for number in range(3):
        await tried(admin, worker, f"job-{number}", engine="claude", ok=number > 0)
    await count_ended_runs(server.coordinator)
    known = await server.coordinator.learner.current()
    other = a_coordinator(tmp_path, store=server.coordinator.store)
    assert await other.learner.current() == known
    (lesson,) = known.cells.values()
    assert (lesson.tries, lesson.passes, lesson.priced) == (3, 2, 3)
    assert len(await other.store.records(Tally, prefix=f"{ALL_PRODUCTS}/{OBSERVATIONS}/")) == 1


async def test_only_the_first_try_of_a_job_is_observed(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    grant = await tried(admin, worker, "again", engine="claude", ok=False)
    where = f"/jobs/{grant['job']['id']}/actions/requeue"
    (await admin.post(where, json={})).raise_for_status()
    second = await worker.granted()
    (await worker.report(second, stage="building")).raise_for_status()
    (await worker.report(second, stage="review", result="ok")).raise_for_status()
    await count_ended_runs(server.coordinator)
    (lesson,) = (await server.coordinator.learner.current()).cells.values()
    assert (lesson.tries, lesson.passes) == (1, 0)


async def test_learned_routing_is_off_until_it_is_turned_on_for_a_product(
    server: Server, admin: httpx.AsyncClient
) -> None:
    asked = {"mode": "ab", "explore": 0.1}
    data = (await admin.put("/routing/notes", json=asked)).raise_for_status().json()
    assert (data["mode"], data["share"], data["explore"]) == ("ab", 0.5, 0.1)
    back = (await admin.put("/routing/notes", json={"mode": "off"})).raise_for_status().json()
    assert (back["mode"], back["share"], back["explore"]) == ("off", 0.0, 0.0)
    log = (await admin.get("/audit")).raise_for_status().json()["events"]
    assert [e["data"]["mode"] for e in log if e["type"] == "routing_changed"] == ["off", "ab"]
    assert (await admin.put("/routing/notes", json={"mode": "wild"})).status_code == 422
    assert (await admin.put("/routing/notes", json=asked | {"share": 1})).status_code == 422


async def test_routing_decision_is_explained_and_its_probability_recorded(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    for number in range(25):
        await tried(admin, worker, f"costly-{number}", engine="claude", ok=number % 2 == 0)
        await tried(admin, worker, f"cheap-{number}", engine="codex")
    await count_ended_runs(server.coordinator)
    asked = {"mode": "ab", "share": 0.99, "explore": 0.5}
    (await admin.put("/routing/notes", json=asked)).raise_for_status()
    await server.coordinator.learner.step()
    seen: set[float] = set()
    jobs = 0
    # The random id of a job decides whether it explores, so the number of jobs varies.
    while len(seen) < 2 or jobs < 4:
        jobs += 1
        grant = await tried(admin, worker, f"free-{jobs}")
        where = f"/jobs/{grant['job']['id']}"
        (run,) = (await admin.get(f"{where}/runs")).raise_for_status().json()["runs"]
        result = run["decision"]
        chosen = result["routing"]["choices"][result["routing"]["chosen"]]
        assert chosen["engine"] == grant["engine"] == run["engine"]
        explored = result["routing"]["explored"]
        assert result["propensity"] == (0.5 if explored else 1.0)
        if result["routing"]["side"] == "learned" and not explored:
            assert grant["engine"] == "codex"
            assert result["terms"]["learned"]["weight"] == 2.0
        seen.add(result["propensity"])
    assert seen == {0.5, 1.0}
    await count_ended_runs(server.coordinator)
    (rollout,) = (await admin.get("/routing")).raise_for_status().json()["rollouts"]
    judged = (await admin.get("/routing/eval")).raise_for_status().json()
    assert judged["episodes"] + rollout["learned"]["tries"] + rollout["usual"]["tries"] == jobs
    assert not judged["concludes"]
    assert judged["told"].startswith("too little data")
    assert [e["policy"] for e in judged["estimates"][:2]] == ["learned", "heuristic"]


async def test_evaluation_without_exploration_is_empty(admin: httpx.AsyncClient) -> None:
    judged = (await admin.get("/routing/eval")).raise_for_status().json()
    assert (judged["episodes"], judged["estimates"], judged["gain"]) == (0, [], None)
    assert "no job has explored" in judged["told"]


async def test_harmful_rollout_switches_to_shadow_and_raises_an_attention_item(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    (await admin.put("/routing/notes", json={"mode": "ab", "explore": 0})).raise_for_status()
    for number in range(40):
        sent = {"manifest": {"name": f"job-{number}", "engine": "claude"}, "body": "Do it."}
        made = (await admin.post("/jobs", json=sent)).raise_for_status().json()
        grant = await worker.granted()
        (await worker.report(grant, stage="building")).raise_for_status()
        if hash_fraction(made["id"], "side") < AB_SHARE:
            under = {"jobId": made["id"], "leaseEpoch": grant["leaseEpoch"]}
            failed = under | {"result": "verify_failed", "reason": "no"}
            (await worker.http.post("/fail", json=failed)).raise_for_status()
        else:
            (await worker.report(grant, stage="review", result="ok")).raise_for_status()
    await count_ended_runs(server.coordinator)
    (rollout,) = (await admin.get("/routing")).raise_for_status().json()["rollouts"]
    assert (rollout["mode"], rollout["explore"]) == ("shadow", 0.0)
    assert rollout["tripped"]["guardrail"] == "success"
    assert rollout["tripped"]["mode"] == "ab"
    log = (await admin.get("/audit")).raise_for_status().json()["events"]
    (event,) = [each for each in log if each["type"] == "routing_tripped"]
    assert event["data"]["from"] == "ab"
    matters = (await admin.get("/attention")).raise_for_status().json()["attention"]
    (matter,) = [each for each in matters if each["kind"] == "routing_tripped"]
    assert matter["reason"].startswith("fewer jobs pass at once: 0 of ")
    await server.coordinator.index.catch_up()
    grant = await tried(admin, worker, "after")
    (run,) = (await admin.get(f"/jobs/{grant['job']['id']}/runs")).json()["runs"]
    assert run["decision"]["routing"]["mode"] == "shadow"
    (await admin.put("/routing/notes", json={"mode": "off"})).raise_for_status()
    matters = (await admin.get("/attention")).raise_for_status().json()["attention"]
    assert not [each for each in matters if each["kind"] == "routing_tripped"]


async def test_viewer_cannot_change_routing(server: Server, admin: httpx.AsyncClient) -> None:
    issued = await server.coordinator.tokens.issue(SYSTEM, "eve", Role.VIEWER, ("notes",))
    async with server.client(issued.secret) as viewer:
        assert (await viewer.get("/routing")).status_code == 200
        refused = await viewer.put("/routing/notes", json={"mode": "on"})
        assert refused.status_code == 403
    issued = await server.coordinator.tokens.issue(SYSTEM, "bob", Role.OPERATOR, ("shop",))
    async with server.client(issued.secret, product=None) as stranger:
        assert (await stranger.put("/routing/notes", json={"mode": "on"})).status_code == 404
        (await admin.put("/routing/notes", json={"mode": "shadow"})).raise_for_status()
        assert (await stranger.get("/routing")).json()["rollouts"] == []


async def test_rollout_survives_a_restart_and_a_product_update(
    server: Server, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    (await admin.put("/routing/notes", json={"mode": "on"})).raise_for_status()
    (await admin.put("/products/notes", json={"share": 2.0})).raise_for_status()
    other = a_coordinator(tmp_path, store=server.coordinator.store)
    seen = [other.index.fleet.predictor.is_active]
    await other.index.load()
    seen.append(other.index.fleet.predictor.is_active)
    (await admin.put("/routing/notes", json={"mode": "off"})).raise_for_status()
    await other.index.catch_up()
    seen.append(other.index.fleet.predictor.is_active)
    assert seen == [False, True, False]


async def test_old_episodes_and_observations_are_deleted(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    asked = {"mode": "shadow", "explore": 0.5}
    (await admin.put("/routing/notes", json=asked)).raise_for_status()
    store = server.coordinator.store
    for number in range(30):
        await tried(admin, worker, f"job-{number}")
        await count_ended_runs(server.coordinator)
        if kept := await store.records(Episode):
            break
    (episode,) = kept
    gone = replace(episode, expires_at=episode.expires_at - 2 * KEPT_FOR, rev=episode.rev + 1)
    await store.commit(RecordChange(before=episode, after=gone))
    today = server.coordinator.clock.now().date()
    bygone = observation_key(f"{month_offset(f'{today:%Y-%m}', -MONTHS_KEPT):%Y-%m}", a_cell())
    await store.commit(RecordChange(before=None, after=Tally(key=bygone)))
    await server.coordinator.learner.step()
    assert await store.records(Episode) == []
    assert await store.record(Tally, bygone) is None
    assert await store.records(Tally, prefix=f"{ALL_PRODUCTS}/{OBSERVATIONS}/") != []
