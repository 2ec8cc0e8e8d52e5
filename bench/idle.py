"""What a fleet costs that has nothing to do: streams open, heartbeats as the server wants them."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import asyncpg
from fleet import API, Served, beat, factories, serving
from ground import Ground
from table import Row, Section, size, verdict
from tap import Tap, tapped
from wire import Wire

FEW = 10
SETTLE_S = 3.0


@dataclass
class Heard:
    """What went over the streams and heartbeats of a fleet."""

    heartbeats: int = 0
    stream_bytes: int = 0


@dataclass(frozen=True)
class Minute:
    """What a fleet of this size cost, scaled to a minute."""

    factories: int
    queries: float
    writes: float
    store_bytes: float
    wal_bytes: float
    heartbeats: float
    stream_bytes: float


def sections(ground: Ground) -> list[Section]:
    """A few factories and then many on the same coordinator: the difference is theirs."""
    many = 1_000 // ground.scale
    # Whole numbers of the 15 s after which heartbeats, their write and the streams come round.
    windows = (15.0, 15.0) if ground.quick else (30.0, 45.0)
    few, full = asyncio.run(_measure(ground.database(), many, windows))
    note = (
        "One coordinator on PostgreSQL, offer streams open, a heartbeat each at the interval that"
        f" the server asks for;\na window of {windows[1]:.0f} s scaled to a minute. Queries and"
        " bytes are counted on the wire between coordinator and\ndatabase, WAL by"
        " `pg_wal_lsn_diff`, streams where they arrive."
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
            f"{fleet}store queries a minute",
            f"{full.queries:,.0f}",
            f"{few.queries:,.0f} with {few.factories}; {max(each, 0):.3f} for each factory more",
            verdict(met=each < 0.1, goal="no query per factory"),
        ),
        (
            f"{fleet}writes a minute, for {beats}",
            f"{full.writes:,.0f}",
            f"{few.writes:,.0f} with {few.factories}",
            verdict(met=shared < full.heartbeats / 100, goal="heartbeats shared in one write"),
        ),
        (
            f"{fleet}bytes a minute to and from the store",
            size(full.store_bytes),
            f"{size(few.store_bytes)} with {few.factories}; {wal}",
            "",
        ),
        (
            f"{fleet}bytes a minute on the streams",
            size(full.stream_bytes),
            f"{size(full.stream_bytes / full.factories)} for each",
            "",
        ),
    ]


async def _measure(dsn: str, many: int, windows: tuple[float, float]) -> list[Minute]:
    async with tapped(dsn) as (address, tap):
        # The tap lives in this very loop, so that a start must not stop it.
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
    heard = Heard()
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            factories(served, count, slots=4, prefix=f"i{count}x")
        )
        tasks = [asyncio.create_task(_listen(one, name, heard)) for name, one in fleet.items()]
        tasks += [
            asyncio.create_task(_beat(one, name, number / count, heard))
            for number, (name, one) in enumerate(fleet.items())
        ]
        stack.push_async_callback(_stopped, tasks)
        database = await asyncpg.connect(dsn)
        stack.push_async_callback(database.close)
        await asyncio.sleep(SETTLE_S)
        before, begun = await _counts(tap, database, heard), time.perf_counter()
        await asyncio.sleep(window)
        after, spent = await _counts(tap, database, heard), time.perf_counter() - begun
        assert not any(task.done() for task in tasks), "a factory has lost its connection"
    return Minute(count, *((b - a) * 60 / spent for a, b in zip(before, after, strict=True)))


async def _counts(
    tap: Tap, database: "asyncpg.Connection[asyncpg.Record]", heard: Heard
) -> tuple[float, ...]:
    wal = await database.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
    writes = sum(count for text, count in tap.asked.items() if "commit_batch" in text)
    return (
        tap.asked.total(),
        writes,
        tap.bytes,
        float(wal),
        heard.heartbeats,
        heard.stream_bytes,
    )


async def _listen(connection: Wire, name: str, heard: Heard) -> None:
    stream = connection.twin()
    try:
        reader = await stream.send("GET", f"{API}/factories/{name}/offers", None, "")
        while piece := await reader.read(1 << 16):
            heard.stream_bytes += len(piece)
    finally:
        stream.close()


async def _beat(connection: Wire, name: str, phase: float, heard: Heard) -> None:
    told = await beat(connection, name, 4)
    every = told["settings"]["heartbeatSec"]
    await asyncio.sleep(every * phase)
    while True:
        await beat(connection, name, 4)
        heard.heartbeats += 1
        await asyncio.sleep(every)


async def _stopped(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
