"""No-op jobs through the real HTTP API: submit → claim → start → finish."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from fleet import API, Served, a_job, factories
from wire import Wire, wire

FACTORIES = 16
SUBMITTERS = 16
SEATS_BUSY = 64
SEATS_MAX = 1000
"""Seats of a factory that claims jobs and never finishes them."""
REQUESTS = 4
"""Per job without batches: submit, claim, start, finish."""
DONE = {"stage": "testing", "result": "ok", "verify": {"passed": True}}

Work = Callable[[Wire, str], Awaitable[int]]


async def one_by_one(homes: list[Served], jobs: int) -> tuple[float, float]:
    """Return jobs per second submitted, and drained by 16 factories, without batches."""
    share = jobs // SUBMITTERS
    begun = time.perf_counter()
    await asyncio.gather(
        *(_submit(homes[n % len(homes)], share, f"o{n}") for n in range(SUBMITTERS))
    )
    submitted = time.perf_counter()
    drained = await _drain(homes, share * SUBMITTERS, _work_one_by_one)
    return share * SUBMITTERS / (submitted - begun), drained


async def in_batches(homes: list[Served], jobs: int) -> tuple[float, float]:
    """Return the same rates with batches: 100 jobs per submit, `claim {max}` and `/reports`."""
    begun = time.perf_counter()
    await _fill(homes, jobs)
    submitted = time.perf_counter()
    return jobs / (submitted - begun), await _drain(homes, jobs, _work_in_batches)


async def bare(url: str, jobs: int) -> float:
    """Return jobs per second of a bare server, with four requests counted as one job."""
    share = jobs // FACTORIES
    begun = time.perf_counter()
    await asyncio.gather(*(_ask(url, share * REQUESTS) for _ in range(FACTORIES)))
    return share * FACTORIES / (time.perf_counter() - begun)


async def _ask(url: str, times: int) -> None:
    async with wire(url, "") as connection:
        for _ in range(times):
            await connection.raw("GET", "/hello")


async def claims(homes: list[Served], jobs: int) -> tuple[float]:
    """Return claims per second with many jobs per request, until the queue is empty."""
    await _fill(homes, jobs)
    return (await _drain(homes, jobs, _claim_in_batches, seats=SEATS_MAX),)


async def claims_one_by_one(homes: list[Served], jobs: int) -> tuple[float]:
    """Return claims per second with one job per request, until the queue is empty."""
    await _fill(homes, jobs)
    return (await _drain(homes, jobs, _claim_one_by_one, seats=SEATS_MAX),)


async def _submit(served: Served, jobs: int, mark: str) -> None:
    async with wire(served.url, served.token) as connection:
        for number in range(jobs):
            await connection.call("POST", f"{API}/jobs", _job(f"{mark}-{number}"))


async def _fill(homes: list[Served], jobs: int) -> None:
    await asyncio.gather(
        *(_submit_many(homes[n % len(homes)], jobs // 4, f"b{n}") for n in range(4))
    )


async def _submit_many(served: Served, jobs: int, mark: str) -> None:
    async with wire(served.url, served.token) as connection:
        for start in range(0, jobs, 100):
            batch = [_job(f"{mark}-{n}") for n in range(start, min(start + 100, jobs))]
            await connection.call("POST", f"{API}/jobs", {"jobs": batch})


def _job(name: str) -> dict[str, object]:
    return a_job(f"{name}-{time.monotonic_ns()}")


async def _drain(homes: list[Served], jobs: int, work: Work, seats: int = SEATS_BUSY) -> float:
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Barrier(len(homes) + 1)
        share = FACTORIES // len(homes)
        counts = [
            group.create_task(_drain_one(home, share, f"h{n}", work, ready, seats))
            for n, home in enumerate(homes)
        ]
        await ready.wait()
        begun = time.perf_counter()
    spent = time.perf_counter() - begun
    done = sum(task.result() for task in counts)
    assert done == jobs, f"{done} of {jobs} jobs were processed"
    return done / spent


async def _drain_one(
    served: Served, count: int, mark: str, work: Work, ready: asyncio.Barrier, seats: int
) -> int:
    prefix = f"{mark}t{time.monotonic_ns()}f"
    async with factories(served, count, slots=seats, prefix=prefix) as fleet:
        await ready.wait()
        done = await asyncio.gather(*(work(one, name) for name, one in fleet.items()))
    return sum(done)


async def _work_one_by_one(connection: Wire, name: str) -> int:
    done = 0
    while grant := await connection.call("POST", f"{API}/claim", {"factoryId": name}):
        job, epoch = grant["job"]["id"], grant["leaseEpoch"]
        await connection.call(
            "PATCH", f"{API}/jobs/{job}", {"leaseEpoch": epoch, "stage": "building"}
        )
        await connection.call("PATCH", f"{API}/jobs/{job}", {"leaseEpoch": epoch, **DONE})
        done += 1
    return done


async def _work_in_batches(connection: Wire, name: str) -> int:
    done = 0
    while grants := await _claim_batch(connection, name):
        reports = [
            {"jobId": job, "leaseEpoch": epoch, **step}
            for job, epoch in grants
            for step in ({"stage": "building"}, DONE)
        ]
        answer = await connection.call("POST", f"{API}/reports", {"reports": reports})
        assert all(r["status"] == 200 for r in answer["results"]), answer["results"][0]
        done += len(grants)
    return done


async def _claim_in_batches(connection: Wire, name: str) -> int:
    done = 0
    while grants := await _claim_batch(connection, name):
        done += len(grants)
    return done


async def _claim_batch(connection: Wire, name: str) -> list[tuple[str, int]]:
    answer = await connection.call("POST", f"{API}/claim", {"factoryId": name, "max": 50})
    return [(g["job"]["id"], g["leaseEpoch"]) for g in answer["grants"]] if answer else []


async def _claim_one_by_one(connection: Wire, name: str) -> int:
    done = 0
    while await connection.call("POST", f"{API}/claim", {"factoryId": name}):
        done += 1
    return done
