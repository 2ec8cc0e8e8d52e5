"""From a submit that was acknowledged to a factory that has its lease, on an idle fleet of ten."""

import asyncio
import time
from typing import Any

import msgspec
from fleet import API, MANIFEST, Served, factories
from wire import Wire, wire


async def dispatch(served: Served, samples: int) -> list[float]:
    """Seconds from the answer to `POST /jobs` to that to `POST /accept`, over offer streams."""
    leased: asyncio.Queue[float] = asyncio.Queue()
    waits: list[float] = []
    async with factories(served, 10, slots=1000, prefix=f"l{time.monotonic_ns()}x") as fleet:
        listeners = [asyncio.create_task(_accept(one, name, leased)) for name, one in fleet.items()]
        async with wire(served.url, served.token) as people:
            await _streaming(people, list(fleet))
            for number in range(samples + 1):
                manifest = {**MANIFEST, "name": f"latency-{time.monotonic_ns()}-{number}"}
                await people.call("POST", f"{API}/jobs", {"manifest": manifest, "body": "true"})
                acknowledged = time.perf_counter()
                waits.append(await leased.get() - acknowledged)
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
    return waits[1:]


async def _streaming(people: Wire, names: list[str]) -> None:
    """Wait until the coordinator knows that all streams are open."""
    while True:
        page = await people.call("GET", f"{API}/factories")
        known = {f["id"]: f for f in page["factories"]}
        if all(known[name].get("streaming") for name in names):
            return
        await asyncio.sleep(0.02)


async def _accept(connection: Wire, name: str, leased: asyncio.Queue[float]) -> None:
    stream = connection.twin()
    async for line in stream.lines(f"{API}/factories/{name}/offers"):
        if not line.startswith(b"data:"):
            continue
        told: dict[str, Any] = msgspec.json.decode(line[5:])
        if "offerId" not in told:
            continue
        accepted = {"factoryId": name, "jobId": told["jobId"], "offerId": told["offerId"]}
        grant = await connection.call("POST", f"{API}/accept", accepted)
        leased.put_nowait(time.perf_counter())
        job = f"{API}/jobs/{grant['job']['id']}"
        await connection.call(
            "PATCH", job, {"leaseEpoch": grant["leaseEpoch"], "stage": "building"}
        )


async def round_trip(served: Served, samples: int) -> list[float]:
    """Seconds of one bare HTTP request."""
    waits = []
    async with wire(served.url, served.token) as people:
        for _ in range(samples):
            begun = time.perf_counter()
            await people.raw("GET", "/healthz")
            waits.append(time.perf_counter() - begun)
    return waits
