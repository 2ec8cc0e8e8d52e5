"""Cost of an idle fleet with open offer streams and heartbeats at the server's interval."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import asyncpg
from fleet import API, Served, beat, factories, serving
from harness import Harness
from table import Row, Section, size, verdict
from tap import Tap, tapped
from wire import Wire

FEW = 10
SETTLE_S = 3.0


@dataclass
class Traffic:
    """Heartbeats and stream bytes of a fleet."""

    heartbeats: int = 0
    stream_bytes: int = 0


@dataclass(frozen=True)
class Minute:
    """Cost of a fleet of this size, scaled to a minute."""

    factories: int
    queries: float
    writes: float
    store_bytes: float
    wal_bytes: float
    heartbeats: float
    stream_bytes: float


def sections(harness: Harness) -> list[Section]:
    """Measure few and then many factories on one coordinator; the difference is their cost."""
    many = 1_000 // harness.scale
    # Multiples of 15 s: the interval of heartbeats, of their write and of stream comments.
    windows = (15.0, 15.0) if harness.quick else (30.0, 45.0)
    few, full = asyncio.run(_measure(harness.database(), many, windows))
    note = (
        "One coordinator on PostgreSQL. Every factory has an open offer stream and sends heartbeats"
        f" at the server's interval;\na window of {windows[1]:.0f} s is scaled to a minute. Queries"
        " and bytes are counted on the connection between coordinator\nand database, WAL with"
        " `pg_wal_lsn_diff`, stream bytes at the receiver."
    )
    return [Section("Idle cost", _rows(few, full), note)]


def _rows(few: Minute, full: Minute) -> list[Row]:
    more = full.factories - few.factories
    each = (full.queries - few.queries) / more
    shared = full.writes - few.writes
    fleet = f"{full.factories:,} idle factories: "
    beats = f"{full.heartbeats:,.0f} heartbeats"
    wal = f"WAL {size(full.wal_bytes)}, {size(few.wal_bytes)} with {few.factories}"
    return [
        (
            f"{fleet}store queries per minute",
            f"{full.queries:,.0f}",
            f"{few.queries:,.0f} with {few.factories}; {max(each, 0):.3f} per additional factory",
            verdict(met=each < 0.1, goal="no query per factory"),
        ),
        (
            f"{fleet}writes per minute for {beats}",
            f"{full.writes:,.0f}",
            f"{few.writes:,.0f} with {few.factories}",
            verdict(met=shared < full.heartbeats / 100, goal="heartbeats share one write"),
        ),
        (
            f"{fleet}bytes per minute to and from the store",
            size(full.store_bytes),
            f"{size(few.store_bytes)} with {few.factories}; {wal}",
            "",
        ),
        (
            f"{fleet}bytes per minute on the streams",
            size(full.stream_bytes),
            f"{size(full.stream_bytes / full.factories)} per factory",
            "",
        ),
    ]


async def _measure(dsn: str, many: int, windows: tuple[float, float]) -> list[Minute]:
    async with tapped(dsn) as (address, tap):
        # The tap runs in this event loop, so the start of the coordinator must not block it.
        process = serving(address)
        served = await asyncio.to_thread(process.__enter__)
        try:
            return [
                await _minute(served, tap, dsn, count, window)
                for count, window in zip((FEW, many), windows, strict=True)
            ]
        finally:
            await asyncio.to_thread(process.__exit__, None, None, None)


async def _minute(served: Served, tap: Tap, dsn: str, count: int, window: float) -> Minute:
    traffic = Traffic()
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            factories(served, count, slots=4, prefix=f"i{count}x")
        )
        tasks = [asyncio.create_task(_listen(one, name, traffic)) for name, one in fleet.items()]
        tasks += [
            asyncio.create_task(_beat(one, name, number / count, traffic))
            for number, (name, one) in enumerate(fleet.items())
        ]
        stack.push_async_callback(_cancel, tasks)
        database = await asyncpg.connect(dsn)
        stack.push_async_callback(database.close)
        await asyncio.sleep(SETTLE_S)
        before, begun = await _counts(tap, database, traffic), time.perf_counter()
        await asyncio.sleep(window)
        after, spent = await _counts(tap, database, traffic), time.perf_counter() - begun
        assert not any(task.done() for task in tasks), "a factory lost its connection"
    return Minute(count, *((b - a) * 60 / spent for a, b in zip(before, after, strict=True)))


async def _counts(
    tap: Tap, database: "asyncpg.Connection[asyncpg.Record]", traffic: Traffic
) -> tuple[float, ...]:
    wal = await database.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
    writes = sum(count for text, count in tap.queries.items() if "commit_batch" in text)
    return (
        tap.queries.total(),
        writes,
        tap.bytes,
        float(wal),
        traffic.heartbeats,
        traffic.stream_bytes,
    )


async def _listen(connection: Wire, name: str, traffic: Traffic) -> None:
    stream = connection.twin()
    try:
        reader = await stream.send("GET", f"{API}/factories/{name}/offers", None, "")
        while piece := await reader.read(1 << 16):
            traffic.stream_bytes += len(piece)
    finally:
        stream.close()


async def _beat(connection: Wire, name: str, phase: float, traffic: Traffic) -> None:
    reply = await beat(connection, name, 4)
    every = reply["settings"]["heartbeatSec"]
    await asyncio.sleep(every * phase)
    while True:
        await beat(connection, name, 4)
        traffic.heartbeats += 1
        await asyncio.sleep(every)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
