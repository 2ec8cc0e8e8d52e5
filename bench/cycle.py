"""No-op jobs through the real HTTP API: submit → claim → start → finish."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from fleet import API, MANIFEST, Served, factories
from wire import Wire, wire

FACTORIES = 16
SUBMITTERS = 16
DONE = {"stage": "testing", "result": "ok", "verify": {"passed": True}}


async def one_by_one(
    served: Served, jobs: int, others: list[Served] | None = None
) -> tuple[float, float]:
    """Jobs per second submitted one by one, and drained one by one by 16 factories."""
    homes = [served, *(others or [])]
    begun = time.perf_counter()
    await asyncio.gather(
        *(_submit(homes[n % len(homes)], jobs // SUBMITTERS, f"o{n}") for n in range(SUBMITTERS))
    )
    submitted = time.perf_counter()
    drained = await _drain(homes, _work_one_by_one)
    return jobs / (submitted - begun), drained


async def in_batches(
    served: Served, jobs: int, others: list[Served] | None = None
) -> tuple[float, float]:
    """The same with jobs in batches of 100, `claim {max}` and `/reports`."""
    homes = [served, *(others or [])]
    begun = time.perf_counter()
    await asyncio.gather(
        *(_submit_many(homes[n % 2 % len(homes)], jobs // 4, f"b{n}") for n in range(4))
    )
    submitted = time.perf_counter()
    drained = await _drain(homes, _work_in_batches)
    return jobs / (submitted - begun), drained


async def _submit(served: Served, jobs: int, mark: str) -> None:
    async with wire(served.url, served.token) as connection:
        for number in range(jobs):
            await connection.call("POST", f"{API}/jobs", _job(f"{mark}-{number}"))


async def _submit_many(served: Served, jobs: int, mark: str) -> None:
    async with wire(served.url, served.token) as connection:
        for start in range(0, jobs, 100):
            batch = [_job(f"{mark}-{n}") for n in range(start, min(start + 100, jobs))]
            await connection.call("POST", f"{API}/jobs", {"jobs": batch})


def _job(name: str) -> dict[str, object]:
    return {"manifest": {**MANIFEST, "name": f"{name}-{time.monotonic_ns()}"}, "body": "true\n"}


Work = Callable[[Wire, str], Awaitable[int]]


async def _drain(homes: list[Served], work: Work) -> float:
    share = FACTORIES // len(homes)
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Barrier(len(homes) + 1)
        counts = [
            group.create_task(_drain_one(h, share, n, work, ready)) for n, h in enumerate(homes)
        ]
        await ready.wait()
        begun = time.perf_counter()
    done = sum(task.result() for task in counts)
    return done / (time.perf_counter() - begun)


async def _drain_one(
    served: Served, count: int, number: int, work: Work, ready: asyncio.Barrier
) -> int:
    mark = f"h{number}t{time.monotonic_ns()}f"
    async with factories(served, count, slots=64, prefix=mark) as fleet:
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
    while answer := await connection.call("POST", f"{API}/claim", {"factoryId": name, "max": 50}):
        grants = [(g["job"]["id"], g["leaseEpoch"]) for g in answer["grants"]]
        if not grants:
            break
        reports = [
            {"jobId": job, "leaseEpoch": epoch, **step}
            for job, epoch in grants
            for step in ({"stage": "building"}, DONE)
        ]
        answer = await connection.call("POST", f"{API}/reports", {"reports": reports})
        assert all(r["status"] == 200 for r in answer["results"]), answer["results"][0]
        done += len(grants)
    return done
