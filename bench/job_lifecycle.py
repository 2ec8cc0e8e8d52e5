"""Complete jobs from submit to shipped, with the requests that people and factories send."""

import asyncio
import time
from typing import Any

from fleet import API, Served, a_job, factories
from wire import Wire, wire

FACTORIES = 8
BODY = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. \n" * 35
"""About 2 kB, one page of text."""
LOG = b"one line of a log, as long as they are on average, and a bit\n" * 268
"""About 16 kB."""
LOG_CHUNKS = 4
COMMIT = {"branch": "aq/job/life", "commit": "4f2a91c0e1d2c3b4a5968778695a4b3c2d1e0f00"}
USAGE = {"tokensIn": 120_000, "tokensCached": 90_000, "tokensOut": 14_000, "costUsd": "1.2345"}
VERIFY = {"passed": True, "output": "ran 321 tests in 12.3 s\nall passed\n"}
DIFF = {"files": 7, "added": 210, "removed": 44}
REPORTS: tuple[dict[str, Any], ...] = (
    {"stage": "building"},
    {"checkpoint": COMMIT, "usage": {**USAGE, "turns": 12}, "note": "half of it is done"},
    {"stage": "review", "result": "ok", "checkpoint": COMMIT, "usage": {**USAGE, "turns": 25}}
    | {"verify": VERIFY, "diff": DIFF},
)
SHIPPING: tuple[dict[str, Any], ...] = ({"note": "pushing the branch"}, {"stage": "shipped"})
REQUESTS = 1 + 1 + len(REPORTS) + 1 + 1 + 1 + len(SHIPPING)
"""Per job: submit, claim, reports, approve, ship, claim, reports; no renewals, no log chunks."""


async def complete_jobs(served: Served, jobs: int, *, keyed: bool) -> list[str]:
    """Complete jobs, `keyed` with an idempotency key per write; return the events of one."""
    mark = f"s{time.monotonic_ns()}x"
    async with (
        wire(served.url, served.token) as people,
        factories(served, FACTORIES, slots=8, prefix=mark) as fleet,
    ):
        for party in (people, *fleet.values()):
            party.keyed = keyed
        made = [await _submit(people, f"{mark}-{number}") for number in range(jobs)]
        await asyncio.gather(*(_work(one, name, run=True) for name, one in fleet.items()))
        for job in made:
            await people.call("POST", f"{API}/jobs/{job}/actions/approve", {"reason": "fine"})
            await people.call("POST", f"{API}/jobs/{job}/actions/ship", {})
        await asyncio.gather(*(_work(one, name, run=False) for name, one in fleet.items()))
        found = [await people.call("GET", f"{API}/jobs/{job}?include=events") for job in made]
    assert all(job["stage"] == "shipped" for job in found), found[0]
    return [event["type"] for event in found[0]["events"]] if found else []


async def _submit(people: Wire, name: str) -> str:
    made: dict[str, Any] = await people.call("POST", f"{API}/jobs", a_job(name, body=BODY))
    return str(made["id"])


async def _work(connection: Wire, name: str, *, run: bool) -> None:
    while grant := await connection.call("POST", f"{API}/claim", {"factoryId": name}):
        job, epoch = f"{API}/jobs/{grant['job']['id']}", grant["leaseEpoch"]
        for number in range(LOG_CHUNKS if run else 0):
            where = f"{job}/logs?leaseEpoch={epoch}&offset={number * len(LOG)}"
            status, answer = await connection.raw("POST", where, LOG, "application/octet-stream")
            assert status == 200, answer
        for report in REPORTS if run else SHIPPING:
            await connection.call("PATCH", job, {"leaseEpoch": epoch, **report})


async def renew_lease(served: Served, times: int) -> None:
    """Lease one more job and renew its lease this many times."""
    mark = f"r{time.monotonic_ns()}x"
    async with (
        wire(served.url, served.token) as people,
        factories(served, 1, slots=1, prefix=mark) as fleet,
    ):
        await _submit(people, mark)
        [(name, one)] = fleet.items()
        grant = await one.call("POST", f"{API}/claim", {"factoryId": name})
        where = f"{API}/jobs/{grant['job']['id']}/lease/renew"
        for _ in range(times):
            await one.call("POST", where, {"leaseEpoch": grant["leaseEpoch"]})
