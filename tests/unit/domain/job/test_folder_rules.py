"""Rules of the folder queue, where one machine is the whole fleet."""

import msgspec
import pytest

from gigafactory.domain.errors import Fenced
from gigafactory.domain.job.folder_rules import REBUILT, edit, fail_unroutable, rebuild
from gigafactory.domain.job.job import JobSpec, Result, Stage, Terms
from gigafactory.domain.submission.submission import (
    DEP_FAILED,
    DEP_MISSING,
    reevaluate,
    resolve_names,
    submit,
)
from tests.support.builders import NOON, a_job, a_running_job, after

SPEC = JobSpec("job-1", msgspec.Raw(b"{}"), "Fix it.")


def test_unroutable_job_on_the_only_machine_fails_without_an_attempt() -> None:
    job = a_running_job(stage=Stage.ASSIGNED, terms=Terms(retry_max=3))
    change = fail_unroutable(job, "mac-1", 1, "it lacks gpu", now=after(1))
    after_it = change.after
    assert (after_it.stage, after_it.result) == (Stage.FAILED, Result.ENGINE_UNAVAILABLE)
    assert (after_it.reason, after_it.attempts, after_it.lease) == ("it lacks gpu", 0, None)
    assert [event.type for event in change.events] == ["failed"]
    assert job.lease is not None
    assert set(job.lease.holds) <= set(change.free)
    with pytest.raises(Fenced):
        fail_unroutable(job, "mac-1", 2, "it lacks gpu", now=after(1))


@pytest.mark.parametrize(
    ("stage", "result"),
    [
        (Stage.REVIEW, Result.OK),
        (Stage.TESTING, Result.OK),
        (Stage.SHIPPED, Result.OK),
        (Stage.FAILED, None),
    ],
)
def test_rebuilt_job_takes_the_stage_of_its_board_column(
    stage: Stage, result: Result | None
) -> None:
    new = submit(a_job(rev=0, seq=0), SPEC, [], actor="folder", now=NOON)
    change = rebuild(new, stage, now=NOON)
    job = change.after
    assert (job.stage, job.result, job.flags, job.seq) == (stage, result, (REBUILT,), 2)
    assert [event.type for event in change.events] == ["submitted", "rebuilt"]
    assert (job.reason is not None) == job.finished


def test_rebuilt_queued_job_with_missing_dependency_is_blocked() -> None:
    new = submit(a_job(rev=0, seq=0), SPEC, [], actor="folder", now=NOON, missing=("x",))
    job = rebuild(new, Stage.QUEUED, now=NOON).after
    assert (job.stage, job.flags) == (Stage.BLOCKED, (DEP_MISSING,))


def test_job_with_missing_dependency_is_blocked_and_flagged() -> None:
    done = a_job(id="dep-1", name="dep", stage=Stage.SHIPPED, rev=3)
    new = a_job(rev=0, seq=0, deps=("dep-1",))
    change = submit(new, SPEC, [done], actor="folder", now=NOON, missing=("later", "last"))
    job = change.after
    assert (job.stage, job.deps) == (Stage.BLOCKED, ("dep-1", "later", "last"))
    assert job.flags == (DEP_MISSING,)
    assert change.events[1].data == {"deps": ["later", "last"]}
    assert reevaluate(job, [done], now=NOON) is None, "an unreadable dependency counts as open"
    assert resolve_names(job, {}, ["later", "last"], NOON) is None
    come = resolve_names(job, {"later": "id-2"}, ["last"], NOON)
    assert come is not None
    assert (come.after.deps, come.after.flags) == (("dep-1", "id-2", "last"), (DEP_MISSING,))
    all_come = resolve_names(come.after, {"last": "id-2"}, [], NOON)
    assert all_come is not None
    assert (all_come.after.deps, all_come.after.flags) == (("dep-1", "id-2"), ())


def test_names_are_not_resolved_for_a_job_that_is_not_blocked() -> None:
    assert resolve_names(a_job(deps=("later",)), {"later": "id-2"}, [], NOON) is None


def test_failed_and_missing_dependency_flags_are_both_kept() -> None:
    dead = a_job(id="dep-1", name="dep", stage=Stage.FAILED, rev=3)
    new = a_job(rev=0, seq=0, deps=("dep-1",), flags=(DEP_FAILED, "other"))
    job = submit(new, SPEC, [dead], actor="folder", now=NOON, missing=("later",)).after
    assert job.flags == ("other", DEP_FAILED, DEP_MISSING)


def test_edit_replaces_the_spec_and_continues_the_history() -> None:
    first = submit(a_job(rev=0, seq=0), SPEC, [], actor="folder", now=NOON).after
    old = msgspec.structs.replace(first, front=True, copy_id="copy-1")
    draft = a_job(rev=0, seq=0, title="Other", created_at=after(5), content_hash="other")
    same = edit(old, submit(draft, SPEC, [], actor="folder", now=after(5)), now=after(5))
    job = same.after
    assert (job.title, job.created_at, job.front, job.copy_id) == ("Other", NOON, True, "copy-1")
    assert (job.rev, job.seq, job.stage_since) == (old.rev + 1, old.seq + 1, old.stage_since)
    assert [(event.type, event.seq) for event in same.events] == [("edited", 2)]
    assert same.before == old
    waits = submit(draft, SPEC, [], actor="folder", now=after(5), missing=("x",))
    blocked = edit(old, waits, now=after(5))
    assert (blocked.after.stage, blocked.after.stage_since) == (Stage.BLOCKED, after(5))
    assert [(event.type, event.seq) for event in blocked.events] == [("edited", 2), ("blocked", 3)]
