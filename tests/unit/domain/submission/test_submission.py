"""New jobs, their dependencies, and superseded jobs."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.errors import Cycle, IdempotencyConflict
from gigafactory.domain.job.change import RevisionGuard
from gigafactory.domain.job.job import (
    FINAL,
    Job,
    JobSpec,
    Offer,
    Result,
    Roadmap,
    Stage,
    Step,
    Terms,
)
from gigafactory.domain.submission.submission import (
    DEP_FAILED,
    find_cycle,
    idempotency_hold,
    is_satisfied,
    is_unsatisfiable,
    reevaluate,
    refuse_cycles,
    submit,
    supersede,
)
from tests.support.builders import NOON, a_job, after

SPEC = JobSpec("job-1", msgspec.Raw(b"{}"), "Fix it.")
SOFT = Terms(deps_mode="soft")
FAIL = Terms(on_dep_failure="fail")

graphs = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefx"), max_size=4), max_size=6
)


def a_dep(stage: Stage, **fields: object) -> Job:
    return a_job(**({"id": "dep-1", "name": "dep", "stage": stage, "rev": 3} | fields))


def blocked_job(**fields: object) -> Job:
    return a_job(**({"stage": Stage.BLOCKED, "deps": ("dep-1",)} | fields))


def test_new_job_is_queued_with_its_first_event_and_name() -> None:
    change = submit(a_job(rev=0, seq=0), SPEC, [], actor="user:ann", now=NOON)
    assert change.before is None
    assert (change.after.stage, change.after.rev, change.after.seq) == (Stage.QUEUED, 1, 1)
    assert (change.spec, change.take, change.guards) == (SPEC, ("name/notes/fix-login",), ())
    (event,) = change.events
    assert (event.seq, event.type, event.actor, event.stage) == (
        1,
        "submitted",
        "user:ann",
        Stage.QUEUED,
    )
    assert event.data == {"by": "user:ann", "priority": "medium", "contentHash": "c0ffee"}


def test_idempotency_key_is_taken_with_the_name() -> None:
    change = submit(a_job(idempotency_key="k"), SPEC, [], actor="user:ann", now=NOON)
    assert change.take == ("name/notes/fix-login", idempotency_hold("notes", "k"))
    assert idempotency_hold("a", "k") != idempotency_hold("b", "k")


def test_job_with_an_open_dependency_is_blocked_under_guard() -> None:
    deps = [a_dep(Stage.BUILDING), a_dep(Stage.SHIPPED, id="dep-2", rev=8)]
    change = submit(a_job(), SPEC, deps, actor="user:ann", now=NOON)
    assert (change.after.stage, change.after.seq, change.after.flags) == (Stage.BLOCKED, 2, ())
    assert [(e.seq, e.type) for e in change.events] == [(1, "submitted"), (2, "blocked")]
    assert change.events[1].data == {"deps": ["dep-1"]}
    assert change.guards == (RevisionGuard("job", "dep-1", 3), RevisionGuard("job", "dep-2", 8))


def test_job_with_satisfied_dependencies_is_queued_under_guard() -> None:
    change = submit(a_job(), SPEC, [a_dep(Stage.SHIPPED)], actor="user:ann", now=NOON)
    assert (change.after.stage, len(change.events)) == (Stage.QUEUED, 1)
    assert change.guards == (RevisionGuard("job", "dep-1", 3),)


def test_dependency_of_the_same_batch_needs_no_guard() -> None:
    change = submit(a_job(), SPEC, [a_dep(Stage.QUEUED, rev=0)], actor="user:ann", now=NOON)
    assert (change.after.stage, change.guards) == (Stage.BLOCKED, ())


def test_job_with_a_failed_dependency_is_flagged_at_submission() -> None:
    job = a_job(flags=("other",))
    change = submit(job, SPEC, [a_dep(Stage.FAILED)], actor="user:ann", now=NOON)
    assert (change.after.stage, change.after.flags) == (Stage.BLOCKED, ("other", DEP_FAILED))


def test_template_of_a_schedule_stays_blocked() -> None:
    job = a_job(terms=Terms(schedule="0 6 * * *"))
    change = submit(job, SPEC, [], actor="user:ann", now=NOON)
    assert (change.after.stage, len(change.events)) == (Stage.BLOCKED, 1)
    assert reevaluate(change.after, [], now=NOON) is None


@pytest.mark.parametrize("stage", Stage)
def test_dependency_is_satisfied_by_shipped_or_softly_by_testing(stage: Stage) -> None:
    dep = a_dep(stage)
    assert is_satisfied(dep, "hard") == (stage is Stage.SHIPPED)
    assert is_satisfied(dep, "soft") == (stage in {Stage.SHIPPED, Stage.TESTING})
    assert is_unsatisfiable(dep) == (stage in FINAL and stage is not Stage.SHIPPED)


def test_blocked_job_is_queued_when_its_last_dependency_is_satisfied() -> None:
    change = reevaluate(blocked_job(flags=(DEP_FAILED, "x")), [a_dep(Stage.SHIPPED)], now=after(5))
    assert change is not None
    assert (change.after.stage, change.after.flags) == (Stage.QUEUED, ("x",))
    assert change.guards == (RevisionGuard("job", "dep-1", 3),)
    assert [(e.type, e.data) for e in change.events] == [("unblocked", {"deps": ["dep-1"]})]


def test_soft_dependency_unblocks_a_job_from_testing() -> None:
    assert reevaluate(blocked_job(), [a_dep(Stage.TESTING)], now=NOON) is None
    change = reevaluate(blocked_job(terms=SOFT), [a_dep(Stage.TESTING)], now=NOON)
    assert change is not None
    assert change.after.stage is Stage.QUEUED


def test_unreadable_dependency_keeps_a_job_blocked() -> None:
    job = blocked_job(deps=("dep-1", "dep-2"))
    assert reevaluate(job, [a_dep(Stage.SHIPPED)], now=NOON) is None


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.BLOCKED])
def test_job_that_is_not_blocked_is_not_reevaluated(stage: Stage) -> None:
    assert reevaluate(blocked_job(stage=stage), [a_dep(Stage.SHIPPED)], now=NOON) is None


def test_job_with_on_dep_failure_fail_fails_with_its_dependency() -> None:
    job = blocked_job(terms=FAIL, flags=(DEP_FAILED,))
    change = reevaluate(job, [a_dep(Stage.CANCELLED)], now=NOON)
    assert change is not None
    assert (change.after.stage, change.after.result) == (Stage.FAILED, Result.DEP_FAILED)
    assert change.after.reason == "these dependencies ended without being shipped: dep-1"
    assert (change.after.flags, change.free) == ((), ("name/notes/fix-login",))
    assert change.guards == (RevisionGuard("job", "dep-1", 3),)


def test_failed_dependency_flag_is_set_once_and_cleared_again() -> None:
    flagged = reevaluate(blocked_job(), [a_dep(Stage.DEAD_LETTER)], now=NOON)
    assert flagged is not None
    assert (flagged.after.stage, flagged.after.flags) == (Stage.BLOCKED, (DEP_FAILED,))
    assert flagged.events[0].data == {"deps": ["dep-1"], "lost": ["dep-1"]}
    assert reevaluate(flagged.after, [a_dep(Stage.DEAD_LETTER)], now=NOON) is None
    reopened = reevaluate(flagged.after, [a_dep(Stage.QUEUED)], now=NOON)
    assert reopened is not None
    assert (reopened.after.stage, reopened.after.flags) == (Stage.BLOCKED, ())
    assert reevaluate(blocked_job(), [a_dep(Stage.QUEUED)], now=NOON) is None


def test_superseded_job_frees_name_and_key_and_its_dependents_move_on() -> None:
    made = Offer(number=1, factory_id="mac-1", engine=None, step=Step.RUN, expires_at=after(15))
    old = a_job(id="old", idempotency_key="k", offer=made)
    new = a_job(id="new", idempotency_key="k")
    waiting = blocked_job(deps=("x", "old"))
    ended, moved = supersede(old, new, [waiting], by="user:ann", now=NOON)
    assert (ended.after.stage, ended.after.result) == (Stage.CANCELLED, Result.SUPERSEDED)
    assert (ended.after.offer, ended.after.reason) == (None, "superseded by new")
    assert ended.free == ("name/notes/fix-login", idempotency_hold("notes", "k"))
    assert (moved.after.stage, moved.after.deps) == (Stage.BLOCKED, ("x", "new"))
    assert moved.events[0].data == {"deps": ["x", "new"], "superseded": "old"}


@pytest.mark.parametrize("stage", [s for s in Stage if s not in {Stage.QUEUED, Stage.BLOCKED}])
def test_job_that_has_started_or_ended_is_not_superseded(stage: Stage) -> None:
    old = a_job(stage=stage, idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match=f"other content, and is {stage}; only"):
        supersede(old, a_job(id="new"), [], by="user:ann", now=NOON)


def reaches(edges: Mapping[str, Sequence[str]], start: str, goal: str) -> bool:
    """Return whether a path of at least one edge leads from `start` to `goal`."""
    seen: set[str] = set()
    look = set(edges.get(start, ()))
    while look:
        seen |= look
        look = {after for node in look for after in edges.get(node, ())} - seen
    return goal in seen


@given(graphs)
def test_find_cycle_finds_a_cycle_exactly_when_one_exists(edges: dict[str, list[str]]) -> None:
    circle = find_cycle(edges)
    assert (circle is not None) == any(reaches(edges, name, name) for name in edges)
    if circle is not None:
        assert all(b in edges[a] for a, b in pairwise(circle))
        assert circle[0] == circle[-1] == min(circle)
        assert len(set(circle)) == len(circle) - 1


def test_cycle_error_spells_out_the_path() -> None:
    with pytest.raises(Cycle, match="the dependencies form a cycle: a → c → b → a") as refusal:
        refuse_cycles({"b": ["a"], "a": ["c"], "c": ["b", "a"]})
    assert refusal.value.path == ("a", "c", "b", "a")
    refuse_cycles({"b": ["a"], "a": ["elsewhere"]})


def test_long_dependency_chain_is_no_cycle() -> None:
    chain = {str(n): [str(n + 1)] for n in range(5000)}
    assert find_cycle(chain) is None
    assert find_cycle(chain | {"5000": ["4999"]}) == ["4999", "5000", "4999"]


COMPOSITE = a_job(id="top", name="top", kind="composite", rev=7, roadmap=Roadmap(1, 1))


def test_child_is_blocked_until_its_phase_opens_and_composite_takes_a_key() -> None:
    child = a_job(parent_id="top", phase=2)
    change = submit(child, SPEC, [], actor="user:ann", now=NOON, parent=COMPOSITE)
    assert change.after.stage is Stage.BLOCKED
    assert change.events[1].data == {"deps": [], "parent": "top", "phase": 2}
    first = submit(a_job(phase=1), SPEC, [], actor="user:ann", now=NOON, parent=COMPOSITE)
    assert first.after.stage is Stage.QUEUED
    assert "composite/top" in submit(COMPOSITE, SPEC, [], actor="user:ann", now=NOON).take


def test_child_is_unblocked_under_guard_when_its_phase_opens() -> None:
    child = blocked_job(deps=(), parent_id="top", phase=2)
    assert reevaluate(child, [], now=NOON, parent=COMPOSITE) is None
    opened = msgspec.structs.replace(COMPOSITE, roadmap=Roadmap(1, 2))
    change = reevaluate(child, [], now=NOON, parent=opened)
    assert change is not None
    assert (change.after.stage, change.guards) == (Stage.QUEUED, (RevisionGuard("job", "top", 7),))
