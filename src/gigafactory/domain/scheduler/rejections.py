"""Count the factories that are no candidates for a job, by reason."""

from collections.abc import Set as AbstractSet
from datetime import datetime

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.fleet.pool import Member, Pool, Presence
from gigafactory.domain.queue.queued_job import QueuedJob
from gigafactory.domain.scheduler.scoring import choose_engine, find_rejection

PRESENT = frozenset({Presence.FRESH, Presence.FADING})

Named = AbstractSet[str]


def count_rejections(
    fleet: FleetState, job: QueuedJob, now: datetime, only: Named | None
) -> dict[str, int]:
    """Return the number of factories that are no candidates for a job, by reason.

    `only` are the factories that offers can reach; None for all.
    """
    counts: dict[str, int] = {}
    for pool in fleet.pools():
        fit = fleet.fit(job.job_class, pool)
        if isinstance(fit, Rejection):
            by_code = {fit.code: len(pool.members)}
        elif job.job_class.required_factories:
            by_code = _count_required(fleet, job, pool, now)
        else:
            by_code = _count_temporary(fleet, job, pool, fit, now, only)
        for code, count in by_code.items():
            counts[code] = counts.get(code, 0) + count
    return {code: counts[code] for code in sorted(counts) if counts[code]}


def free_engine_choice(member: Member, fit: Fit, fleet: FleetState) -> EngineChoice | None:
    """Return the preferred engine with a free seat on a factory; None without one."""
    if member.presence not in PRESENT or member.occupancy.load >= 1.0:
        return None
    return choose_engine(fit, member.occupancy, fleet)


def _count_required(fleet: FleetState, job: QueuedJob, pool: Pool, now: datetime) -> dict[str, int]:
    """Count for a job that requires one factory by name: all others lack that capability."""
    counts = {"capability": 0}
    for factory_id, member in pool.members.items():
        if not job.job_class.allows_factory(factory_id):
            counts["capability"] += 1
        else:
            why = find_rejection(fleet, member, job.job_class, job, now)
            counts |= {why.code: 1} if why is not None else {}
    return counts


def _count_temporary(
    fleet: FleetState, job: QueuedJob, pool: Pool, fit: Fit, now: datetime, only: Named | None
) -> dict[str, int]:
    """Count by temporary reasons: offline, unhealthy, busy, excluded, unreachable."""
    rooms = [
        ranks for room, ranks in pool.open.items() if choose_engine(fit, room, fleet) is not None
    ]
    members, away, sick = pool.members, pool.odd[Presence.AWAY], pool.odd[Presence.SICK]
    fading = [
        name
        for name in pool.odd[Presence.FADING]
        if free_engine_choice(members[name], fit, fleet) is not None
    ]
    free = sum(map(len, rooms)) + len(fading)
    counts = {
        "offline": len(away),
        "unhealthy": len(sick),
        "busy": len(members) - len(away) - len(sick) - free,
    }
    if job.exclusions or not (only is None or members.keys() <= only):
        names = {factory_id for ranks in rooms for _, factory_id, _ in ranks}
        counts |= _count_unasked(job, names.union(fading), now, only)
    return counts


def _count_unasked(
    job: QueuedJob, free: set[str], now: datetime, only: Named | None
) -> dict[str, int]:
    """Count the free factories that are excluded or cannot be reached."""
    out = {e.factory_id for e in job.exclusions if e.until > now}
    unreachable = 0 if only is None else len(free - out - only)
    return {"excluded": len(free & out), "unreachable": unreachable}
