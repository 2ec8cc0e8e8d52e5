"""Metrics over HTTP: each one counts its event, and only authorized callers can read them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.system.clock import SystemClock
from tests.support.api_server import Server, Worker, a_coordinator, a_server
from tests.support.builders import a_factory


class JumpingClock(SystemClock):
    """The system's clock with an offset that the test advances."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        """Return the time with the offset."""
        return super().now() + self.ahead


class Numbers(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of one scrape."""

    def of(self, name: str, **labels: str) -> float:
        """Return the value of a series, or 0 if the series does not exist."""
        return self.get((f"gigafactory_{name}", frozenset(labels.items())), 0.0)


async def scraped(server: Server) -> Numbers:
    """Scrape the metrics like a local collector and return the samples."""
    async with httpx.AsyncClient(base_url=server.url) as collector:
        answer = await collector.get("/metrics")
    assert answer.status_code == 200
    return Numbers(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
    )


@pytest.fixture
def clock() -> JumpingClock:
    """A clock that the test can advance."""
    return JumpingClock()


@pytest_asyncio.fixture
async def server(tmp_path: Path, clock: JumpingClock) -> AsyncIterator[Server]:
    """A coordinator for one test."""
    async with a_server(tmp_path, clock=clock) as running:
        yield running


async def test_run_updates_its_metrics(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "engine": "claude", "verify": "x"}})
    await admin.post("/jobs", json={"manifest": {"name": "b", "deps": ["a"]}})
    before = await scraped(server)
    assert before.of("queue_depth", product="notes", priority="medium") == 1
    assert before.of("jobs", stage="blocked") == 1
    assert before.of("slots") == 4
    assert before.of("seats_total", engine="claude") == 4
    grant = await worker.granted()
    usage = {"engine": "claude", "tokensIn": 10, "tokensOut": 5, "costUsd": 0.25}
    running = await scraped(server)
    assert running.of("leases") == 1
    assert running.of("utilization") == 0.25
    assert running.of("seats_taken", engine="claude") == 1
    assert running.of("wait_seconds_count", product="notes") == 1
    assert running.of("assign_seconds_bucket", product="notes", le="30.0") == 1
    assert running.of("seat_time_seconds", product="notes") > 0
    await worker.report(grant, stage="building", usage=usage)
    done = await worker.report(
        grant, stage="review", verify={"passed": True}, usage=usage | {"costUsd": 0.75}
    )
    assert done.status_code == 200, done.text
    after = await scraped(server)
    assert after.of("verifies_total", product="notes", verdict="passed") == 1
    assert after.of("first_tries_total", product="notes", verdict="passed") == 1
    assert after.of("run_seconds_count", engine="claude", result="ok") == 1
    assert after.of("cost_usd_total", product="notes", engine="claude") == 0.75
    assert after.of("tokens_total", engine="claude", kind="in") == 10
    assert after.of("events_total", type="assigned") == 1
    assert after.of("feed_lag_seconds_count") > before.of("feed_lag_seconds_count")
    assert after.of("commit_seconds_count") > before.of("commit_seconds_count")
    assert after.of("store_up") == 1


async def test_expired_lease_counts_a_reap_and_its_late_report_a_fencing(
    server: Server, admin: httpx.AsyncClient, worker: Worker, clock: JumpingClock
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    coordinator = server.coordinator
    await coordinator.reaper.step()
    # A large step would look like an outage of the coordinator itself.
    while not (await scraped(server)).of("reaps_total"):
        clock.ahead += timedelta(seconds=6)
        await coordinator.reaper.step()
    assert (await worker.report(grant, stage="building")).status_code == 409
    metrics = await scraped(server)
    assert metrics.of("reclaim_seconds_count") == 1
    assert metrics.of("fencing_rejections_total") == 1
    assert metrics.of("events_total", type="lease_expired") == 1


async def test_failures_count_dead_letters_and_failed_first_tries(
    server: Server, admin: httpx.AsyncClient, worker: Worker, clock: JumpingClock
) -> None:
    retry = {"max": 1, "backoff": "1s"}
    await admin.post("/jobs", json={"manifest": {"name": "a", "retry": retry}})
    for _ in range(2):
        clock.ahead += timedelta(seconds=3)
        grant = await worker.granted()
        await worker.report(grant, stage="failed", result="crash", reason="segfault")
    metrics = await scraped(server)
    assert metrics.of("dead_letters_total") == 1
    assert metrics.of("jobs_ended_total", product="notes", stage="dead_letter") == 1
    assert metrics.of("first_tries_total", product="notes", verdict="failed") == 1


async def test_offer_records_its_dispatch_lag(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    async with worker.http.stream("GET", f"/factories/{worker.id}/offers") as offers:
        await admin.post("/jobs", json={"manifest": {"name": "a"}})
        async for line in offers.aiter_lines():
            if line.startswith("event: offer"):
                break
    assert (await scraped(server)).of("dispatch_lag_seconds_count") == 1


async def test_losing_claim_counts_a_conflict(
    server: Server, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await server.factory_token("mac-1")
    await server.factory_token("mac-2")
    other = a_coordinator(tmp_path, store=server.coordinator.store)
    await other.load()
    claims = []
    for coordinator, name in ((server.coordinator, "mac-1"), (other, "mac-2")):
        caller = Caller(actor=f"factory:{name}", factory_id=name, products=("*",))
        await coordinator.factories.heartbeat(caller, a_factory(id=name), Pressure(), ())
        claims.append(coordinator.claims.claim(caller, name))
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grants = await asyncio.gather(*claims)
    assert sorted(map(len, grants)) == [0, 1]
    lost = [each.metrics.counters.claim_conflicts.total() for each in (server.coordinator, other)]
    assert sum(lost) == 1


async def test_metrics_show_unroutable_jobs_and_halts(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "capabilities": ["has:tpu"]}})
    await admin.post("/halt", json={"product": "notes"})
    await worker.beat(engines={"claude": {"seats": 2, "unavailable": "not logged in"}})
    metrics = await scraped(server)
    assert metrics.of("jobs_unroutable") == 1
    assert metrics.of("halted", product="notes") == 1
    assert metrics.of("engine_unavailable_factories", engine="claude") == 1
    assert metrics.of("violations_total", kind="double_lease") == 0


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
async def test_metrics_through_a_proxy_need_a_token_for_all_products(
    server: Server, header: str
) -> None:
    async with httpx.AsyncClient(base_url=server.url, headers={header: "10.0.0.7"}) as other:
        assert (await other.get("/metrics")).status_code == 401
        some = await server.token("ann", Role.VIEWER, ["notes"])
        answer = await other.get("/metrics", headers={"authorization": f"Bearer {some}"})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        every = await server.token("prometheus", Role.VIEWER)
        answer = await other.get("/metrics", headers={"authorization": f"Bearer {every}"})
        assert answer.status_code == 200


async def test_metrics_can_be_opened_to_all(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path, metrics_open=True) as server,
        httpx.AsyncClient(base_url=server.url, headers={"forwarded": "for=10.0.0.7"}) as other,
    ):
        assert (await other.get("/metrics")).status_code == 200
