"""How long an event takes to reach many listeners."""

import asyncio
import statistics
import time

from fleet import API, MANIFEST, Served
from wire import Wire, wire


async def fan_out(served: Served, listeners: int, samples: int) -> float:
    """Seconds from the answer to a submit to the event at the slowest of 99 % of the listeners."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    ready = asyncio.Barrier(listeners + 1)
    streams = [Wire(served.url, served.token) for _ in range(listeners)]
    tasks = [asyncio.create_task(_listen(one, heard, ready)) for one in streams]
    await ready.wait()
    waits = []
    async with wire(served.url, served.token) as people:
        for number in range(samples):
            manifest = {**MANIFEST, "name": f"event-{time.monotonic_ns()}-{number}"}
            begun = time.perf_counter()
            await people.call("POST", f"{API}/jobs", {"manifest": manifest, "body": "true"})
            arrived = sorted([await heard.get() - begun for _ in range(listeners)])
            waits.append(arrived[int(listeners * 0.99) - 1])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in streams:
        one.close()
    return statistics.median(waits)


async def _listen(one: Wire, heard: asyncio.Queue[float], ready: asyncio.Barrier) -> None:
    reader = await one.send("GET", f"{API}/events/stream", None, "")
    await reader.readuntil(b"\r\n\r\n")
    await ready.wait()
    while line := await reader.readline():
        if line.startswith((b"event: submitted", b"event:submitted")):
            heard.put_nowait(time.perf_counter())
