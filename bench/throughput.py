"""Durable throughput over HTTP, embedded and on PostgreSQL, compared with the peers."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

import cycle
import raw
from events import bare_server
from fleet import Served, serving_together
from harness import Harness
from peers import dbos_peer, huey_peer, pgqueuer_one_by_one, pgqueuer_peer, procrastinate_peer
from table import Row, Section, verdict

STATE_CHANGES = 4
"""Durable state changes per job: submit, claim, start, finish."""

BARE = "four bare requests per job, same framework"
RAW = "raw claims in the database, 8 connections"
NOTE = (
    "Every round measures all queues. Peers run a job in the process that fetches it; with"
    " Gigafactory, 16 factories in another process send HTTP requests: four per job when claimed"
    " and reported one by one."
)
CHANGES = (
    "A raw claim is one durable change of one job in one round trip. A Gigafactory job makes four."
)

Round = Callable[[], tuple[float, ...]]
Measure = Callable[[list[Served], int], Coroutine[None, None, tuple[float, ...]]]


class Peer(Protocol):
    """A module that measures a queue on PostgreSQL."""

    async def measure(self, dsn: str, jobs: int) -> tuple[float, float]: ...


def sections(harness: Harness) -> list[Section]:
    """Measure all queues with the same no-op jobs."""
    jobs = 3200 // harness.scale
    return [
        Section("Durable throughput, embedded", _beside_peers(harness, jobs), NOTE),
        Section("Durable throughput, PostgreSQL", _beside_raw(harness, jobs), CHANGES),
    ]


def _beside_peers(harness: Harness, jobs: int) -> list[Row]:
    peers: dict[str, Round] = {
        "PgQueuer (PostgreSQL)": _peer(harness, pgqueuer_peer, jobs),
        "PgQueuer, one job per query": _peer(harness, pgqueuer_one_by_one, jobs),
        "Procrastinate (PostgreSQL)": _peer(harness, procrastinate_peer, jobs // 2),
        "DBOS (PostgreSQL)": _peer(harness, dbos_peer, jobs // 2),
        "Huey (SQLite, synced)": lambda: _huey(jobs),
    }
    ours = {
        "embedded, one by one": _ours(harness, cycle.one_by_one, jobs // 4),
        "embedded, in batches": _ours(harness, cycle.in_batches, jobs),
    }
    figures = harness.in_turn(peers | ours | {BARE: lambda: _bare(jobs // 4)})
    best = max(_whole(figures[name]) for name in peers)
    rows = [_rates(name, figures[name], "") for name in peers]
    floor, *_ = figures[BARE]
    rows.append((BARE, f"{floor:,.0f} jobs/s", "no reads, decisions or writes", ""))
    for name in ours:
        ratio = _whole(figures[name]) / best
        goal = f"≥ the best peer; measured {ratio:.2f} ×"
        rows.append(_rates(name, figures[name], verdict(met=ratio >= 1, goal=goal)))
    return rows


def _beside_raw(harness: Harness, jobs: int) -> list[Row]:
    cycles = "PostgreSQL, two coordinators, in batches"
    claims = {
        "two coordinators, claims only, 50 per request": _ours(harness, cycle.claims, jobs, 2),
        "one coordinator, claims only, 50 per request": _ours(harness, cycle.claims, jobs, 1),
        "two coordinators, claims only, one per request": _ours(
            harness, cycle.claims_one_by_one, jobs // 4, 2
        ),
    }
    figures = harness.in_turn(
        {
            RAW: lambda: (asyncio.run(raw.claims(harness.database(), jobs)),),
            cycles: _ours(harness, cycle.in_batches, jobs, 2),
            **claims,
        }
    )
    limit, *_ = figures[RAW]
    changes = _whole(figures[cycles]) * STATE_CHANGES
    name, measured, beside, _ = _rates(cycles, figures[cycles], "")
    judged = _half(changes / limit, "state changes are")
    rows = [(name, measured, f"{beside}; {changes:,.0f} state changes/s", judged)]
    for name in claims:
        rate, *_ = figures[name]
        rows.append((name, f"{rate:,.0f} claims/s", "", _half(rate / limit, "measured")))
    return [(RAW, f"{limit:,.0f}/s", "", ""), *rows]


def _half(ratio: float, what: str) -> str:
    """Format the verdict on a rate relative to raw claims."""
    return verdict(met=ratio >= 0.5, goal=f"≥ 0.5 × raw claims; {what} {ratio:.2f} ×")


def _peer(harness: Harness, module: Peer, jobs: int) -> Round:
    return lambda: asyncio.run(module.measure(harness.database(), jobs))


def _bare(jobs: int) -> tuple[float, ...]:
    with bare_server() as url:
        return (asyncio.run(cycle.bare(url, jobs)),)


def _huey(jobs: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as folder:
        return huey_peer.measure(Path(folder), jobs)


def _ours(harness: Harness, how: Measure, jobs: int, stores: int = 0) -> Round:
    """Measure on the embedded store, or on `stores` coordinators that share a PostgreSQL."""

    def once() -> tuple[float, ...]:
        addresses = [harness.database()] * stores if stores else [None]
        with serving_together(*addresses) as homes:
            return asyncio.run(how(homes, jobs))

    return once


def _whole(figures: tuple[float, ...]) -> float:
    """Return jobs per second from submit to finish, for phases that run one after the other."""
    return 1 / sum(1 / figure for figure in figures)


def _rates(name: str, figures: tuple[float, ...], judged: str) -> Row:
    into, out = figures
    beside = f"submitted {into:,.0f}/s, drained {out:,.0f}/s"
    return (name, f"{_whole(figures):,.0f} jobs/s", beside, judged)
