"""Explain why a job runs where it does, or why it does not run yet."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from gigafactory.domain.elapsed import format_ago, format_elapsed
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.unroutable import missing_capabilities, unroutable_reasons
from gigafactory.domain.job.job import Job, Lease, Stage, Step
from gigafactory.domain.job.lease import lock_key
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.placement import AGEING_STEP_S
from gigafactory.domain.scheduler.scoring import find_rejection
from gigafactory.domain.tenancy.target_wait import target_start

NAMES_MAX = 3
REASONS_MAX = 20

_WAITS_FOR_PERSON = {
    Stage.REVIEW: "it waits for a review",
    Stage.TESTING: "it is ready, and waits for a ship request",
}


_NOT_STARTED = frozenset({Stage.BLOCKED, Stage.QUEUED, Stage.BUILDING})


class Reason(msgspec.Struct, frozen=True, rename="camel"):
    """One reason why a job does not run: a stable code and a message."""

    code: str
    message: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a job runs where it does, or why it does not run yet."""

    job_id: str
    stage: Stage
    answer: Literal["here", "not_yet", "person", "ended"]
    summary: str
    reasons: tuple[Reason, ...] = ()
    unroutable: tuple[str, ...] = ()
    """Why no present or past factory could run it, with the nearest known tokens."""
    rejections: dict[str, int] = {}
    """The number of factories that are no candidates now, by reason."""
    decision: dict[str, Any] | None = None
    """The scheduling decision of its current grant."""
    due_at: datetime | None = None
    """By when it should start, if its product has a target wait."""


def explain(
    job: Job,
    queue: ReadyQueue,
    fleet: FleetState,
    now: datetime,
    *,
    decision: Mapping[str, Any] | None = None,
    open_deps: Collection[str] | None = None,
    parent: Job | None = None,
) -> Explanation:
    """Explain why a job runs where it does, or why it does not run yet.

    `decision` is that of its newest grant, `open_deps` its unfinished dependencies (default: all),
    `parent` its composite.
    """
    queue.advance(now)
    fleet.advance(now)
    if job.lease is not None:
        return _explain_running(
            job, job.lease, dict(decision) if decision is not None else None, now
        )
    if job.finished:
        why = f": {job.reason}" if job.reason else ""
        return _plain(job, "ended", f"the job has ended as {job.stage}{why}")
    spent = _explain_spent(job, parent)
    if spent is not None or job.stage is Stage.BLOCKED:
        waits_for = job.deps if open_deps is None else open_deps
        return spent or _explain_blocked(job, waits_for, parent)
    if job.composite and job.stage in {Stage.QUEUED, Stage.BUILDING}:
        return _explain_composite(job)
    if job.step is None:
        return _plain(job, "person", _explain_person(job))
    return _explain_waiting(job, job.step, queue, fleet, now)


def _explain_person(job: Job) -> str:
    waits = _WAITS_FOR_PERSON.get(job.stage, f"it is {job.stage}")
    # A ship that failed leaves its reason.
    return f"{waits}; {job.reason}" if job.stage is Stage.TESTING and job.reason else waits


def _explain_running(
    job: Job, lease: Lease, decision: dict[str, Any] | None, now: datetime
) -> Explanation:
    doing = "ships it" if lease.step is Step.SHIP else "runs it"
    tool = f" with {lease.engine}" if lease.engine else ""
    back = f", and is asked to hand it back for {job.preemption.by}" if job.preemption else ""
    summary = (
        f"{lease.factory_id} {doing}{tool}, granted {format_ago(now - lease.granted_at)}{back}"
    )
    return msgspec.structs.replace(_plain(job, "here", summary), decision=decision)


def _explain_spent(job: Job, parent: Job | None) -> Explanation | None:
    """Explain that the budget of the job or of its composite is spent."""
    for gate in (job, *((parent,) if parent is not None else ())):
        if gate.over_budget and job.stage in _NOT_STARTED:
            return _plain(job, "person", f"the budget of {gate.name} is spent: no run starts")
    return None


def _explain_composite(job: Job) -> Explanation:
    asked = job.roadmap.asked if job.roadmap else None
    if asked is not None:
        return _plain(job, "person", f"phase {asked} waits for approval")
    return _plain(job, "not_yet", "a composite runs through its children")


def _plain(
    job: Job, answer: Literal["here", "not_yet", "person", "ended"], summary: str
) -> Explanation:
    return Explanation(job_id=job.id, stage=job.stage, answer=answer, summary=summary)


def _explain_blocked(job: Job, open_deps: Collection[str], parent: Job | None) -> Explanation:
    if job.terms.schedule is not None:
        return _plain(
            job, "not_yet", f"a template: a copy is submitted on schedule {job.terms.schedule}"
        )
    if not open_deps:
        return _explain_parent(job, parent)
    reasons = tuple(Reason("deps", f"it waits for job {dep}") for dep in sorted(open_deps))
    lost = "; one of them can no longer succeed" if job.flags else ""
    summary = f"it waits for {len(reasons)} other job{'' if len(reasons) == 1 else 's'}{lost}"
    return msgspec.structs.replace(_plain(job, "not_yet", summary), reasons=reasons)


def _explain_parent(job: Job, parent: Job | None) -> Explanation:
    """Explain what holds a blocked job whose dependencies are satisfied."""
    if parent is None:
        return _plain(job, "not_yet", "nothing holds it any more: it is queued in a moment")
    asked = parent.roadmap.asked if parent.roadmap is not None else None
    if asked is not None:
        return _plain(job, "person", f"phase {asked} of {parent.name} waits for approval")
    waits = f"its composite {parent.name}, which is {parent.stage}"
    return _plain(
        job,
        "not_yet",
        f"it waits for its phase in {waits}" if job.phase else f"it waits for {waits}",
    )


def _explain_waiting(
    job: Job, step: Step, queue: ReadyQueue, fleet: FleetState, now: datetime
) -> Explanation:
    waiting = queue.find(job.id)
    job_class = waiting.job_class if waiting is not None else JobClass.of(job, step)
    own = list(_own_reasons(job, step, queue, fleet, now))
    counts, refused, able = _ask_factories(
        fleet, job_class, waiting or QueuedJob.of(job, job_class), now
    )
    never = unroutable_reasons(job.ask, job.product_id, fleet) if step is Step.RUN else ()
    departed = (
        missing_capabilities(job.ask, job.product_id, fleet, now)
        if step is Step.RUN and not never
        else ()
    )
    reasons = [
        *own,
        *(Reason("unroutable", text) for text in never),
        *(Reason("capability", text) for text in departed),
        *refused,
    ]
    if able and not own:
        reasons.insert(0, Reason("turn", _describe_turn(job, able, now)))
    due = target_start(job, fleet.product(job.product_id))
    if due is not None and due < now:
        over = format_elapsed(now - due)
        reasons.append(Reason("late", f"it waits {over} longer than {job.product_id} wants it to"))
    return Explanation(
        job_id=job.id,
        stage=job.stage,
        answer="not_yet",
        summary=reasons[0].message
        if reasons
        else f"no factory is enrolled for product {job.product_id}",
        reasons=tuple(reasons[:REASONS_MAX]),
        unroutable=never,
        rejections=counts,
        due_at=due,
    )


def _own_reasons(
    job: Job, step: Step, queue: ReadyQueue, fleet: FleetState, now: datetime
) -> Iterator[Reason]:
    """Yield the reasons that do not depend on any factory."""
    if (stopped := fleet.stop_reason(job.product_id)) is not None:
        paused = stopped == fleet.budget_stops.get(job.product_id)
        yield Reason("budget_paused" if paused else "halted", stopped)
    elif (refusal := fleet.budget_refusal(JobClass.of(job, step), now)) is not None:
        yield Reason("budget", refusal)
    if job.not_before is not None and job.not_before > now:
        left = format_elapsed(job.not_before - now)
        yield Reason(
            "not_before", f"it waits until {job.not_before:%Y-%m-%d %H:%M:%S} UTC ({left})"
        )
    if job.lock is not None and step is Step.RUN:
        for holder in queue.lock_holders(lock_key(job.product_id, job.lock)):
            if holder != job.id:
                yield Reason("lock", f"lock {job.lock} is held by job {holder}")
            elif job.ending:
                yield Reason(
                    "lock", f"lock {job.lock} is held by its own previous run, which is stopping"
                )
    if (victim := fleet.running_jobs.preempted_for(job.id)) is not None:
        yield Reason("preempting", _describe_preemption(victim, job))
    if job.offer is not None:
        until = f"{job.offer.expires_at:%H:%M:%S} UTC"
        yield Reason("offered", f"it is offered to {job.offer.factory_id} until {until}")


def _describe_preemption(victim: Job, job: Job) -> str:
    assert victim.lease is not None, "a preempted job has a lease"
    assert victim.preemption is not None, "a preempted job has a preemption request"
    until = f"{victim.preemption.deadline:%H:%M:%S} UTC"
    place = victim.lease.factory_id
    own = victim.product_id == job.product_id
    victim_name = f"job {victim.id}" if own else "job of another product"
    return f"{victim.priority} {victim_name} is being preempted on {place}, by {until}"


def _ask_factories(
    fleet: FleetState, job_class: JobClass, job: QueuedJob, now: datetime
) -> tuple[dict[str, int], list[Reason], list[str]]:
    """Return rejection counts by code, reasons with factory names, and the able factories.

    A factory that does not serve the product is none of the job's business.
    """
    counts: dict[str, int] = {}
    refusals: dict[tuple[str, str], list[str]] = {}
    able: list[str] = []
    for member in fleet.members():
        if not member.pool.traits.admits(job_class.product_id):
            continue
        why = find_rejection(fleet, member, job_class, job, now)
        if why is None:
            able.append(member.factory.id)
        else:
            counts[why.code] = counts.get(why.code, 0) + 1
            refusals.setdefault((why.code, why.message), []).append(member.factory.id)
    reasons = [Reason(code, f"{_names(ids)}: {text}") for (code, text), ids in refusals.items()]
    return dict(sorted(counts.items())), reasons, able


def _describe_turn(job: Job, able: list[str], now: datetime) -> str:
    since = job.ship.at if job.ship is not None else job.stage_since
    ranks_gained = int((now - since).total_seconds() // AGEING_STEP_S)
    steps = f" (aged by {ranks_gained})" if ranks_gained > 0 else ""
    return (
        f"{_names(able)} could run it: it is {job.priority}{steps}, and waits behind jobs that are"
        " more urgent or have waited longer"
    )


def _names(ids: list[str]) -> str:
    more = len(ids) - NAMES_MAX
    return ", ".join(ids[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
