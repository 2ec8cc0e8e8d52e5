"""Durable throughput: ours through HTTP, embedded and on PostgreSQL, beside the peers."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

import cycle
import raw
from events import bare_server
from fleet import Served, serving_together
from ground import Ground
from peers import dbos_peer, huey_peer, pgqueuer_one_by_one, pgqueuer_peer, procrastinate_peer
from table import Row, Section, verdict

STATE_CHANGES = 4
"""Durable commits of a job's cycle: submit, claim, start, finish."""

BARE = "four bare requests a job, same framework"
RAW = "raw claims of the database, 8 connections"
NOTE = (
    "Every round takes all in turn. Peers run the job in the process that fetches it; here 16"
    " factories of another process ask over HTTP: one by one that is four requests a job."
)
CHANGES = "A raw claim is one durable change of one job, in one round trip. A job here makes four."

Round = Callable[[], tuple[float, ...]]
Measure = Callable[[list[Served], int], Coroutine[None, None, tuple[float, ...]]]


class Peer(Protocol):
    """A module that measures a queue on PostgreSQL."""

    async def measure(self, dsn: str, jobs: int) -> tuple[float, float]: ...


def sections(ground: Ground) -> list[Section]:
    """All queues with the same no-op jobs."""
    jobs = 3200 // ground.scale
    return [
        Section("Durable throughput, embedded", _beside_peers(ground, jobs), NOTE),
        Section("Durable throughput, PostgreSQL", _beside_raw(ground, jobs), CHANGES),
    ]


def _beside_peers(ground: Ground, jobs: int) -> list[Row]:
    peers: dict[str, Round] = {
        "PgQueuer (PostgreSQL)": _peer(ground, pgqueuer_peer, jobs),
        "PgQueuer, one job a query": _peer(ground, pgqueuer_one_by_one, jobs),
        "Procrastinate (PostgreSQL)": _peer(ground, procrastinate_peer, jobs // 2),
        "DBOS (PostgreSQL)": _peer(ground, dbos_peer, jobs // 2),
        "Huey (SQLite, synced)": lambda: _huey(jobs),
    }
    ours = {
        "embedded, one by one": _ours(ground, cycle.one_by_one, jobs // 4),
        "embedded, in batches": _ours(ground, cycle.in_batches, jobs),
    }
    figures = ground.in_turn(peers | ours | {BARE: lambda: _bare(jobs // 4)})
    best = max(_whole(figures[name]) for name in peers)
    rows = [_rates(name, figures[name], "") for name in peers]
    floor, *_ = figures[BARE]
    rows.append((BARE, f"{floor:,.0f} jobs/s", "nothing is read, decided or stored", ""))
    for name in ours:
        ratio = _whole(figures[name]) / best
        goal = f"≥ the best peer, this is {ratio:.2f} ×"
        rows.append(_rates(name, figures[name], verdict(met=ratio >= 1, goal=goal)))
    return rows


def _beside_raw(ground: Ground, jobs: int) -> list[Row]:
    cycles = "PostgreSQL, two coordinators, in batches"
    claims = {
        "two coordinators, claims alone, 50 a request": _ours(ground, cycle.claims, jobs, 2),
        "one coordinator, claims alone, 50 a request": _ours(ground, cycle.claims, jobs, 1),
        "two coordinators, claims alone, one a request": _ours(
            ground, cycle.claims_one_by_one, jobs // 4, 2
        ),
    }
    figures = ground.in_turn(
        {
            RAW: lambda: (asyncio.run(raw.claims(ground.database(), jobs)),),
            cycles: _ours(ground, cycle.in_batches, jobs, 2),
            **claims,
        }
    )
    limit, *_ = figures[RAW]
    changes = _whole(figures[cycles]) * STATE_CHANGES
    name, measured, beside, _ = _rates(cycles, figures[cycles], "")
    said = _half(changes / limit, "its state changes")
    rows = [(name, measured, f"{beside}; {changes:,.0f} state changes/s", said)]
    for name in claims:
        rate, *_ = figures[name]
        rows.append((name, f"{rate:,.0f} claims/s", "", _half(rate / limit, "this")))
    return [(RAW, f"{limit:,.0f}/s", "", ""), *rows]


def _half(ratio: float, what: str) -> str:
    """The verdict on a rate beside the raw one."""
    return verdict(met=ratio >= 0.5, goal=f"≥ 0.5 × raw claims, {what} {ratio:.2f} ×")


def _peer(ground: Ground, module: Peer, jobs: int) -> Round:
    return lambda: asyncio.run(module.measure(ground.database(), jobs))


def _bare(jobs: int) -> tuple[float, ...]:
    with bare_server() as url:
        return (asyncio.run(cycle.bare(url, jobs)),)


def _huey(jobs: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as folder:
        return huey_peer.measure(Path(folder), jobs)


def _ours(ground: Ground, how: Measure, jobs: int, stores: int = 0) -> Round:
    """On the embedded store, or on so many coordinators that share a PostgreSQL."""

    def once() -> tuple[float, ...]:
        addresses = [ground.database()] * stores if stores else [None]
        with serving_together(*addresses) as homes:
            return asyncio.run(how(homes, jobs))

    return once


def _whole(figures: tuple[float, ...]) -> float:
    """Jobs per second from submit to finish, when one follows the other."""
    return 1 / sum(1 / figure for figure in figures)


def _rates(name: str, figures: tuple[float, ...], said: str) -> Row:
    into, out = figures
    beside = f"submitted {into:,.0f}/s, drained {out:,.0f}/s"
    return (name, f"{_whole(figures):,.0f} jobs/s", beside, said)
