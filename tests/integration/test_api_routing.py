"""Learned routing over HTTP: learned from runs, recommended in words, rolled out by a setting."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.lesson import Experience
from gigafactory.domain.tally import Slip
from gigafactory.store.sqlite.store import SqliteStore
from tests.servers import Server, Worker, a_coordinator, a_server, a_worker

ENGINES: dict[str, object] = {"claude": {"seats": 4}, "codex": {"seats": 4}}


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """A coordinator of this test alone, on each embedded store."""
    if request.param == "memory":
        async with a_server(tmp_path) as running:
            yield running
        return
    async with (
        SqliteStore.open(tmp_path / "fleet.db") as store,
        a_server(tmp_path, store=store) as running,
    ):
        yield running


@pytest_asyncio.fixture
async def admin(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """An admin who works on product notes."""
    async with server.client() as client:
        yield client


@pytest_asyncio.fixture
async def worker(server: Server) -> AsyncIterator[Worker]:
    """A factory with two engines."""
    async with a_worker(server) as factory:
        await factory.beat(engines=ENGINES)
        yield factory


async def tallied(coordinator: Coordinator) -> None:
    """Come back when all that has ended is counted."""
    while await coordinator.store.records(Slip):
        await coordinator.leadership.lead()
        await coordinator.tallies.step()
        await coordinator.index.follow()


async def tried(
    admin: httpx.AsyncClient, worker: Worker, name: str, *, ok: bool = True, **manifest: object
) -> dict[str, Any]:
    """A job with its first run; its grant."""
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


async def test_what_is_clearly_better_is_recommended_with_its_evidence(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    for number in range(25):
        await tried(admin, worker, f"dear-{number}", engine="claude", ok=number % 2 == 0)
        await tried(admin, worker, f"cheap-{number}", engine="codex")
    await tallied(server.coordinator)
    told = (await admin.get("/routing")).raise_for_status().json()
    assert told["tries"] == 50
    assert told["rollouts"] == []
    (best,) = told["recommendations"]
    assert (best["repo"], best["engine"], best["tries"], best["others"]) == (
        *("notes", "codex"),
        *(25, 25),
    )
    assert best["success"]["low"] > 0.0
    assert best["cost"]["high"] < 0.0
    assert best["told"].startswith("repo notes: codex passes at once ")
    assert "% cheaper" in best["told"]
    assert "than the present mix (n = 25, 95 % intervals)" in best["told"]


async def test_what_was_learned_survives_a_restart(
    server: Server, admin: httpx.AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    for number in range(3):
        await tried(admin, worker, f"job-{number}", engine="claude", ok=number > 0)
    await tallied(server.coordinator)
    known = await server.coordinator.learner.known()
    other = a_coordinator(tmp_path, store=server.coordinator.store)
    assert await other.learner.known() == known
    (lesson,) = known.cells.values()
    assert (lesson.tries, lesson.passes, lesson.priced) == (3, 2, 3)
    assert len(await other.store.records(Experience)) == 1


async def test_only_the_first_try_of_a_job_teaches(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    grant = await tried(admin, worker, "again", engine="claude", ok=False)
    where = f"/jobs/{grant['job']['id']}/actions/requeue"
    (await admin.post(where, json={})).raise_for_status()
    second = await worker.granted()
    (await worker.report(second, stage="building")).raise_for_status()
    (await worker.report(second, stage="review", result="ok")).raise_for_status()
    await tallied(server.coordinator)
    (lesson,) = (await server.coordinator.learner.known()).cells.values()
    assert (lesson.tries, lesson.passes) == (1, 0)


async def test_a_product_is_off_until_somebody_turns_it_on(
    server: Server, admin: httpx.AsyncClient
) -> None:
    asked = {"mode": "ab", "explore": 0.1}
    told = (await admin.put("/routing/notes", json=asked)).raise_for_status().json()
    assert (told["mode"], told["share"], told["explore"]) == ("ab", 0.5, 0.1)
    back = (await admin.put("/routing/notes", json={"mode": "off"})).raise_for_status().json()
    assert (back["mode"], back["share"], back["explore"]) == ("off", 0.0, 0.0)
    log = (await admin.get("/audit")).raise_for_status().json()["events"]
    assert [e["data"]["mode"] for e in log if e["type"] == "routing_changed"] == ["off", "ab"]
    assert (await admin.put("/routing/notes", json={"mode": "wild"})).status_code == 422
    assert (await admin.put("/routing/notes", json=asked | {"share": 1})).status_code == 422
