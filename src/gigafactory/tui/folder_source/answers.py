"""What is known of a folder, in the words in which the API tells of a fleet."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import format_usd
from gigafactory.domain.submission.submission import DEP_FAILED
from gigafactory.folder.queue.claim import Claim
from gigafactory.folder.queue.record import Kept
from gigafactory.folder.queue.status import Line, State
from gigafactory.tui.model.source import Snapshot
from gigafactory.wire import answers

WAITING = frozenset({Stage.QUEUED, Stage.BLOCKED})
DIED = "it died at work; `aq run` or `aq recover` goes on with its jobs"


def snapshot(
    state: State, claims: Iterable[Claim], draining: frozenset[int], *, now: datetime
) -> Snapshot:
    """The whole folder at a moment."""
    runners = tuple(_runner(claim, draining=claim.pid in draining) for claim in claims)
    return Snapshot(
        jobs=tuple(map(job_answer, state.jobs)),
        counts=Counter(line.job.stage for line in state.jobs),
        factories=runners,
        matters=(*_asked(state), *_wrong(state, runners, now)),
        why={line.job.id: line.waits for line in state.jobs if line.waits},
    )


def runner_name(pid: int) -> str:
    """What a process that works on the folder is called."""
    return f"runner {pid}"


def _runner(claim: Claim, *, draining: bool) -> answers.Factory:
    alive = claim.alive
    return answers.Factory(
        id=runner_name(claim.pid),
        online=alive,
        health=1.0 if alive else 0.0,
        draining=draining,
        streaming=False,
        last_seen=claim.at,
        enrolled_at=claim.at,
        products=(),
        os=None,
        labels=(),
        capabilities=(),
        engines={},
        slots=0,
        repos=(),
        version=None,
    )


def job_answer(line: Line) -> answers.Job:
    """A job; whoever works on it is known by its process."""
    job = line.job
    lease = job.lease
    holder = runner_name(line.pid) if line.pid else lease.factory_id if lease else ""
    return answers.Job(
        id=job.id,
        name=job.name,
        product_id=job.product_id,
        title=job.title,
        kind=job.kind,
        stage=job.stage,
        result=job.result,
        reason=job.reason,
        priority=job.priority,
        repo=job.ask.repo,
        profile=job.profile,
        engine=job.engine or job.ask.engine,
        capabilities=job.ask.needs,
        deps=job.deps,
        lock=job.lock,
        attempts=job.attempts,
        submitted_by=job.submitted_by,
        rev=job.rev,
        lease_epoch=job.lease_epoch,
        lease=answers.Lease(factory_id=holder, expires_at=lease.expires_at) if lease else None,
        checkpoint=job.checkpoint,
        parent_id=job.parent_id,
        phase=job.phase,
        created_at=job.created_at,
        updated_at=job.updated_at,
        stage_since=job.stage_since,
        not_before=job.not_before,
        flags=job.flags,
        actions=actions_of(job),
    )


def run_answers(kept: Kept) -> tuple[answers.Run, ...]:
    """The runs of a job, the newest last."""
    return tuple(
        answers.Run(
            id=run.id,
            factory_id=run.factory_id,
            lease_epoch=run.epoch,
            number=run.number,
            step=run.step,
            engine=run.engine,
            granted_at=run.granted_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
            result=run.result,
            reason=run.reason,
            usage=_usage(run),
        )
        for run in kept.runs
    )


def _usage(run: Run) -> dict[str, object] | None:
    if run.usage is None:
        return None
    cost = run.usage.cost_nano_usd
    told: dict[str, object] = msgspec.to_builtins(run.usage)
    return told | {"costUsd": None if cost is None else format_usd(cost)}


def why(line: Line) -> str:
    """Why a job is where it is, or does not run yet."""
    if line.waits:
        return line.waits
    if line.pid:
        return f"process {line.pid} works on it"
    words = {
        Stage.QUEUED: "it waits for a runner: `aq run` is one",
        Stage.REVIEW: "it waits for a review",
        Stage.TESTING: "it is ready, and waits for somebody to ship it",
    }
    return words.get(line.job.stage, line.job.reason or "")


def _asked(state: State) -> Iterator[answers.Matter]:
    """What a person is asked for."""
    if state.halted is not None:
        title, since = "the folder is halted", state.halted.at
        yield _note("halted", "*", title, state.halted.told, since, ("resume",))
    for stage, kind, usual in (
        (Stage.REVIEW, "review", "waits for a review"),
        (Stage.TESTING, "ship", "ready to ship"),
    ):
        for line in state.jobs:
            if line.job.stage is stage and line.job.ship is None:
                yield _matter(line, kind, line.job.reason or usual)


def _wrong(
    state: State, runners: Iterable[answers.Factory], now: datetime
) -> Iterator[answers.Matter]:
    """What went wrong, or does not go on by itself."""
    for line in state.jobs:
        if line.job.stage in {Stage.FAILED, Stage.DEAD_LETTER}:
            yield _matter(line, "failed", line.job.reason or "failed")
        elif line.job.stage in WAITING and line.job.flags:
            kind = DEP_FAILED if DEP_FAILED in line.job.flags else line.job.flags[0]
            yield _matter(line, kind, line.waits or "")
    for file in state.invalid:
        name, reason = file.file.removesuffix(".md"), "; ".join(file.errors)
        yield _note("invalid", name, f"{file.file} is no job", reason, now, ("requeue",))
    for runner in runners:
        if not runner.online:
            yield _note("factory_offline", runner.id, runner.id, DIED, runner.enrolled_at)
    if state.new:
        names = f"{', '.join(state.new)}: `aq run` takes them in"
        yield _note("new", "inbox", f"{len(state.new)} new in the inbox", names, now)


def _matter(line: Line, kind: str, reason: str) -> answers.Matter:
    job = line.job
    return answers.Matter(
        kind=kind,
        subject=job.id,
        title=job.title,
        since=job.stage_since,
        reason=reason,
        actions=actions_of(job),
        product_id=job.product_id,
    )


def _note(
    kind: str, subject: str, title: str, reason: str, since: datetime, can: tuple[str, ...] = ()
) -> answers.Matter:
    return answers.Matter(
        kind=kind,
        subject=subject,
        title=title,
        since=since,
        reason=reason,
        actions=can,
        product_id=None,
    )
