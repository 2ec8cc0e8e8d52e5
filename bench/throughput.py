"""Durable throughput: ours through HTTP, embedded and on PostgreSQL, beside the peers."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

import cycle
import raw
from fleet import Served, serving_together
from ground import Ground
from peers import dbos_peer, huey_peer, pgqueuer_peer, procrastinate_peer
from table import Row, Section, verdict

STATE_CHANGES = 4
"""Durable commits of a job's cycle: submit, claim, start, finish."""

Measure = Callable[[list[Served], int], Coroutine[None, None, tuple[float, ...]]]


class Peer(Protocol):
    """A module that measures a queue on PostgreSQL."""

    async def measure(self, dsn: str, jobs: int) -> tuple[float, float]: ...


def sections(ground: Ground) -> list[Section]:
    """All queues with the same no-op jobs."""
    jobs = 3200 // ground.scale
    peers = {
        "PgQueuer (PostgreSQL)": _peer(ground, pgqueuer_peer, jobs),
        "Procrastinate (PostgreSQL)": _peer(ground, procrastinate_peer, jobs // 2),
        "DBOS (PostgreSQL)": _peer(ground, dbos_peer, jobs // 2),
        "Huey (SQLite, synced)": ground.several(lambda: _huey(jobs)),
    }
    best = max(_whole(figures) for figures in peers.values())
    rows = [_rates(name, figures, "") for name, figures in peers.items()]
    rows += _embedded(ground, jobs, best)
    return [Section("Durable throughput", rows + _shared(ground, jobs))]


def _peer(ground: Ground, module: Peer, jobs: int) -> tuple[float, ...]:
    return ground.several(lambda: asyncio.run(module.measure(ground.database(), jobs)))


def _huey(jobs: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as folder:
        return huey_peer.measure(Path(folder), jobs)


def _ours(ground: Ground, how: Measure, jobs: int, stores: int = 0) -> tuple[float, ...]:
    """On the embedded store, or on so many coordinators that share a PostgreSQL."""

    def once() -> tuple[float, ...]:
        addresses = [ground.database()] * stores if stores else [None]
        with serving_together(*addresses) as homes:
            return asyncio.run(how(homes, jobs))

    return ground.several(once)


def _embedded(ground: Ground, jobs: int, best: float) -> list[Row]:
    rows = []
    for how, name, count in (
        (cycle.one_by_one, "embedded, one by one", jobs // 4),
        (cycle.in_batches, "embedded, in batches", jobs),
    ):
        figures = _ours(ground, how, count)
        ratio = _whole(figures) / best
        goal = f"≥ the best peer, this is {ratio:.2f} ×"
        rows.append(_rates(name, figures, verdict(met=ratio >= 1, goal=goal)))
    return rows


def _shared(ground: Ground, jobs: int) -> list[Row]:
    limit, *_ = ground.several(lambda: (asyncio.run(raw.claims(ground.database(), jobs)),))
    full = _ours(ground, cycle.in_batches, jobs, stores=2)
    changes = _whole(full) * STATE_CHANGES
    ratio = _whole(full) / limit
    goal = f"≥ 0.5 × raw claims, this is {ratio:.2f} ×, its state changes {changes / limit:.2f} ×"
    told = _rates(
        "PostgreSQL, two coordinators, in batches", full, verdict(met=ratio >= 0.5, goal=goal)
    )
    name, measured, beside, said = told
    rows = [(name, measured, f"{beside}; {changes:,.0f} state changes/s", said)]
    for how, title, count in (
        (cycle.claims, "PostgreSQL, two coordinators, claims alone, 50 a request", jobs),
        (cycle.claims_one_by_one, "the same, one a request", jobs // 4),
    ):
        rate, *_ = _ours(ground, how, count, stores=2)
        ratio = rate / limit
        goal = f"≥ 0.5 × raw claims, this is {ratio:.2f} ×"
        rows.append((title, f"{rate:,.0f} claims/s", "", verdict(met=ratio >= 0.5, goal=goal)))
    return [("raw claims of the database, 8 connections", f"{limit:,.0f}/s", "", ""), *rows]


def _whole(figures: tuple[float, ...]) -> float:
    """Jobs per second from submit to finish, when one follows the other."""
    return 1 / sum(1 / figure for figure in figures)


def _rates(name: str, figures: tuple[float, ...], said: str) -> Row:
    into, out = figures
    beside = f"submitted {into:,.0f}/s, drained {out:,.0f}/s"
    return (name, f"{_whole(figures):,.0f} jobs/s", beside, said)
