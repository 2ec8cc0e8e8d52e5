"""The lifecycle: its table of moves, and the function that takes a step."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job.change import (
    FactoriesSeen,
    JobChange,
    RecordChange,
    RevisionGuard,
    events_of,
)
from gigafactory.domain.job.job import (
    BOARD,
    EDITED,
    FINAL,
    RUNNING,
    Job,
    Priority,
    Stage,
    Step,
    Terms,
)
from gigafactory.domain.job.lifecycle import (
    ACTION_TARGETS,
    ACTIONS,
    ALLOWED,
    TRANSITIONS,
    actions_of,
    combine,
    name_key,
    require_action,
    require_ready,
    transition,
)
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import NOON, a_checkpoint, a_job, a_running_job, a_shipping_job, after

# A second, independent copy of the lifecycle's table, stage by stage.
TABLE = """
-           queued blocked
blocked     queued failed cancelled
queued      assigned building cancelled
assigned    building queued failed dead_letter cancelled
building    queued failed dead_letter testing review cancelled
review      testing failed queued cancelled
testing     failed queued shipped cancelled
shipped
failed      review queued blocked
dead_letter queued blocked
cancelled   queued blocked
"""


def test_transition_table_matches_the_specification() -> None:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    written = {(row[0], after) for row in rows for after in row[1:]}
    assert {(move.before or "-", str(move.after)) for move in TRANSITIONS} == written
    assert len(TRANSITIONS) == len(ALLOWED)
    assert all(move.by and move.when for move in TRANSITIONS)


@pytest.mark.parametrize(("stage", "wanted"), list(product(Stage, Stage)))
def test_move_outside_the_table_is_rejected_and_names_both_stages(
    stage: Stage, wanted: Stage
) -> None:
    job = a_job(stage=stage)
    if (stage, wanted) in ALLOWED:
        assert transition(job, wanted, ("moved", {}), actor="x", now=NOON).after.stage is wanted
        return
    with pytest.raises(IllegalTransition, match=f"is {stage} and cannot become {wanted}"):
        transition(job, wanted, ("moved", {}), actor="x", now=NOON)


def test_every_stage_is_in_one_column_of_the_board() -> None:
    assert sorted(stage for column in BOARD.values() for stage in column) == sorted(Stage)
    assert set(BOARD["failed"]) | set(BOARD["shipped"]) == FINAL
    assert set(BOARD["building"]) < RUNNING


@pytest.mark.parametrize(("stage", "action"), list(product(Stage, ACTIONS)))
def test_action_is_offered_exactly_where_it_is_allowed(stage: Stage, action: str) -> None:
    job = a_job(stage=stage)
    if action in actions_of(job):
        require_action(job, action)
        return
    allowed = (
        f"is {stage} and cannot become {ACTION_TARGETS[action]}; {action} is for jobs that are"
    )
    with pytest.raises(IllegalTransition, match=allowed):
        require_action(job, action)


def test_review_and_shipped_stages_offer_their_actions() -> None:
    buttons = ("approve", "reject", "request-changes", "request-review", "cancel")
    assert actions_of(a_job(stage=Stage.REVIEW)) == buttons
    assert actions_of(a_job(stage=Stage.SHIPPED)) == ()


def test_work_edited_after_its_approval_needs_approval_before_shipping() -> None:
    job = a_job(stage=Stage.TESTING, checkpoint=a_checkpoint("def"), flags=(EDITED,))
    assert actions_of(job) == ("approve", "reject", "request-changes", "cancel")
    with pytest.raises(IllegalTransition, match="def has to be approved first"):
        require_action(job, "ship")
    alone = replace(job, terms=Terms(review_by_people=False))
    assert actions_of(alone) == ("reject", "request-changes", "ship", "cancel")


def test_every_action_follows_a_move_of_the_table() -> None:
    assert ACTION_TARGETS.keys() == ACTIONS.keys()
    for action, wanted in ACTION_TARGETS.items():
        assert all(stage is wanted or (stage, wanted) in ALLOWED for stage in ACTIONS[action]), (
            action
        )


def test_transition_writes_one_numbered_event_for_each_note() -> None:
    job = a_job(seq=4, rev=7)
    guards = (RevisionGuard("switch", "*", 1),)
    change = transition(
        job,
        Stage.ASSIGNED,
        ("one", {"a": 1}),
        ("two", {}),
        actor="factory:mac-1",
        now=after(5),
        take=("seat",),
        guards=guards,
        attempts=2,
    )
    assert change.before is job
    assert (change.after.rev, change.after.seq, change.after.attempts) == (8, 6, 2)
    assert change.after.stage_since == change.after.updated_at == after(5)
    assert [(e.seq, e.type, e.data) for e in change.events] == [
        (5, "one", {"a": 1}),
        (6, "two", {}),
    ]
    assert {(e.at, e.actor, e.stage, e.job_id, e.product_id) for e in change.events} == {
        (after(5), "factory:mac-1", Stage.ASSIGNED, "job-1", "notes")
    }
    assert (change.take, change.free, change.guards) == (("seat",), (), guards)


def test_transition_without_a_new_stage_keeps_the_stage_time() -> None:
    change = transition(a_job(), None, ("noted", {}), actor="x", now=after(5))
    assert change.after.stage_since == NOON
    assert change.after.stage is Stage.QUEUED


def test_event_times_never_go_back_when_the_clock_does() -> None:
    change = transition(a_job(updated_at=after(9)), Stage.ASSIGNED, ("x", {}), actor="x", now=NOON)
    assert change.events[0].at == change.after.updated_at == change.after.stage_since == after(9)


@pytest.mark.parametrize(("before", "to"), [(m.before, m.after) for m in TRANSITIONS if m.before])
def test_finished_job_frees_its_name(before: Stage, to: Stage) -> None:
    change = transition(a_job(stage=before), to, ("x", {}), actor="x", now=NOON, free=("seat",))
    assert change.free == (("seat", "name/notes/fix-login") if to in FINAL else ("seat",))


def test_transition_rejects_an_unknown_job_field() -> None:
    with pytest.raises(TypeError, match="colour"):
        transition(a_job(), None, ("x", {}), actor="x", now=NOON, colour="red")


def test_combined_changes_are_stored_as_one() -> None:
    job = a_running_job()
    first = transition(job, None, ("one", {}), actor="x", now=NOON, take=("a",), free=("b",))
    second = transition(
        first.after, Stage.REVIEW, ("two", {}), actor="x", now=NOON, take=("c",), free=("d",)
    )
    change = combine(first, second)
    assert change.before is job
    assert change.after is second.after
    assert [(e.seq, e.type, e.stage) for e in change.events] == [
        (2, "one", Stage.BUILDING),
        (3, "two", Stage.REVIEW),
    ]
    assert (change.take, change.free) == (("a", "c"), ("b", "d"))
    assert combine(None, second) is second


def test_combine_rejects_a_change_that_does_not_start_from_the_first() -> None:
    first = transition(a_job(), None, ("one", {}), actor="x", now=NOON)
    with pytest.raises(AssertionError, match="starts from the result"):
        combine(first, first)


@given(st.sampled_from(Stage), st.integers(-5, 5))
def test_job_is_ready_only_when_queued_and_its_start_time_has_come(
    stage: Stage, seconds: int
) -> None:
    job = a_job(stage=stage, not_before=NOON)
    if stage is Stage.QUEUED and seconds >= 0:
        assert require_ready(job, Stage.ASSIGNED, now=after(seconds)) is Step.RUN
        return
    with pytest.raises(
        IllegalTransition, match=r"does not wait|waits until 2026-01-01T12:00:00\.000"
    ):
        require_ready(job, Stage.ASSIGNED, now=after(seconds))


def test_job_in_testing_has_a_ship_step_once_shipping_is_requested() -> None:
    shipping = a_shipping_job()
    assert shipping.step is None
    assert a_shipping_job(lease=None).step is Step.SHIP
    assert a_shipping_job(lease=None, ship=None).step is None


def test_job_head_is_its_checkpoint_commit_and_final_stages_are_finished() -> None:
    assert a_job().head is None
    assert a_job(checkpoint=a_checkpoint("abc")).head == "abc"
    assert [stage for stage in Stage if a_job(stage=stage).finished] == [
        Stage.SHIPPED,
        Stage.FAILED,
        Stage.DEAD_LETTER,
        Stage.CANCELLED,
    ]


def test_critical_priority_ranks_first() -> None:
    assert [p.rank for p in (Priority.CRITICAL, Priority.HIGH, Priority.MEDIUM, Priority.LOW)] == [
        0,
        1,
        2,
        3,
    ]


def test_name_keys_differ_by_product() -> None:
    assert name_key(a_job(product_id="a")) != name_key(a_job(product_id="b"))


def test_events_of_a_group_of_writes_keep_their_order() -> None:
    def record_event(job: Job, kind: str) -> JobChange:
        return transition(job, None, (kind, {}), actor="x", now=NOON)

    first, second = record_event(a_job(), "one"), record_event(a_job(id="job-2"), "two")
    saved = RecordChange(before=None, after=Product(id="notes"), events=first.events)
    writes = (first, FactoriesSeen({"mac-1": NOON}), saved, second)
    assert [event.type for event in events_of(writes)] == ["one", "one", "two"]


def test_record_change_exposes_the_changed_record() -> None:
    product_ = Product(id="notes")
    assert RecordChange(before=None, after=product_).record is product_
    assert RecordChange(before=product_, after=None).record is product_
    with pytest.raises(AssertionError, match="a change of nothing"):
        _ = RecordChange(before=None, after=None).record


def test_composite_has_its_own_actions_and_rejects_others() -> None:
    composite = a_job(kind="composite", stage=Stage.BUILDING)
    assert actions_of(composite) == ("approve", "cancel")
    require_action(composite, "cancel")
    with pytest.raises(IllegalTransition, match="ship is for composites that are testing"):
        require_action(composite, "ship")
    with pytest.raises(IllegalTransition, match="preempt is for its children; a composite has"):
        require_action(composite, "preempt")


def test_composite_has_no_step_before_its_ship_request() -> None:
    assert a_job(kind="composite").step is None
    assert a_shipping_job(kind="composite", lease=None).step is Step.SHIP
