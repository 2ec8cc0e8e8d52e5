"""Composites: how they advance with their children, and when a child may start."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.composite.composite import (
    PHASE_WAITING,
    add_children,
    advance,
    approve,
    blocks_composite,
    close,
    first_phase,
    reopen,
)
from gigafactory.domain.errors import Forbidden, IllegalTransition
from gigafactory.domain.job.job import Job, Roadmap, Stage, Terms
from gigafactory.domain.submission.submission import admits
from tests.support.builders import NOON, a_checkpoint, a_job, a_lease

PEOPLE = Terms(ship="none")
NO_REVIEW = Terms(ship="none", review_by_people=False)


def a_composite(**fields: object) -> Job:
    usual = {"kind": "composite", "stage": Stage.BUILDING, "roadmap": Roadmap(), "terms": PEOPLE}
    return a_job(**(usual | fields))


def a_child(**fields: object) -> Job:
    return a_job(**({"id": "child-1", "name": "child", "parent_id": "job-1"} | fields))


@pytest.mark.parametrize(
    ("stage", "opened", "phase", "expected"),
    [
        (Stage.QUEUED, None, None, True),
        (Stage.BUILDING, None, 2, True),
        (Stage.BUILDING, 1, 1, True),
        (Stage.BUILDING, 1, 2, False),
        (Stage.BUILDING, 1, None, True),
        (Stage.BLOCKED, None, None, False),
        (Stage.CANCELLED, None, None, False),
    ],
)
def test_child_is_admitted_only_when_its_composite_and_phase_are_open(
    stage: Stage, opened: int | None, phase: int | None, *, expected: bool
) -> None:
    composite = a_composite(stage=stage, roadmap=Roadmap(1, opened))
    assert admits(composite, a_child(phase=phase)) is expected


def test_leaf_job_or_composite_without_roadmap_admits_every_child() -> None:
    assert admits(a_job(stage=Stage.FAILED), a_child())
    assert admits(a_composite(roadmap=None), a_child(phase=3))


def test_composite_moves_to_building_once_a_child_has_started() -> None:
    waiting = a_composite(stage=Stage.QUEUED)
    assert advance(waiting, [], started=False, now=NOON) is None
    change = advance(waiting, [], started=True, now=NOON)
    assert change is not None
    assert (change.after.stage, [e.type for e in change.events]) == (Stage.BUILDING, ["started"])
    bare = advance(replace(waiting, roadmap=None), [], started=True, now=NOON)
    assert bare is not None
    assert advance(a_composite(stage=Stage.TESTING), [], started=True, now=NOON) is None


def test_composite_without_verify_ships_once_all_children_are_done() -> None:
    gone = a_child(stage=Stage.CANCELLED, superseded_by="child-2")
    change = advance(a_composite(), [gone], started=False, now=NOON)
    assert change is not None
    assert change.after.stage is Stage.SHIPPED
    assert [e.type for e in change.events] == ["children_shipped", "ship_requested", "shipped"]
    assert "composite/job-1" in change.free


def test_composite_with_verify_waits_in_testing_for_a_ship_step() -> None:
    terms = Terms(verify=True, ship="merge")
    change = advance(a_composite(terms=terms), [], started=False, now=NOON)
    assert change is not None
    assert (change.after.stage, change.after.ship is not None) == (Stage.TESTING, True)


def test_composite_asks_once_for_the_next_phase_after_one_ships() -> None:
    composite = a_composite(roadmap=Roadmap(1, 1))
    left = [a_child(stage=Stage.BLOCKED, phase=3), a_child(stage=Stage.BUILDING)]
    change = advance(composite, left, started=False, now=NOON)
    assert change is not None
    assert (change.after.roadmap, change.after.flags) == (Roadmap(1, 1, 3), (PHASE_WAITING,))
    assert change.events[0].data == {"phase": 3, "shipped": 1}
    assert advance(change.after, left, started=False, now=NOON) is None


def test_next_phase_opens_at_once_without_required_approval() -> None:
    composite = a_composite(roadmap=Roadmap(1, 1), terms=NO_REVIEW)
    change = advance(composite, [a_child(phase=2)], started=False, now=NOON)
    assert change is not None
    assert (change.after.roadmap, change.events[0].type) == (Roadmap(1, 2), "phase_opened")


@pytest.mark.parametrize(
    ("opened", "phase"), [(1, 1), (1, None), (None, 2)], ids=["open", "none", "no phases"]
)
def test_composite_does_not_advance_while_a_phase_is_in_progress(
    opened: int | None, phase: int | None
) -> None:
    composite = a_composite(roadmap=Roadmap(1, opened))
    assert advance(composite, [a_child(phase=phase)], started=False, now=NOON) is None
    assert advance(a_composite(roadmap=None), [a_child()], started=False, now=NOON) is None


def test_only_children_of_the_open_phase_block_the_composite() -> None:
    plain, phased = a_composite(), a_composite(roadmap=Roadmap(1, 1))
    assert blocks_composite(plain, a_child())
    assert blocks_composite(replace(plain, roadmap=None), a_child())
    assert blocks_composite(phased, a_child(phase=1))
    assert not blocks_composite(phased, a_child(phase=2))
    assert not blocks_composite(phased, a_child())
    assert not blocks_composite(plain, a_child(superseded_by="child-2"))


def test_approval_opens_the_next_phase() -> None:
    asked = a_composite(roadmap=Roadmap(1, 1, 2), flags=(PHASE_WAITING,))
    change = approve(asked, "user:bob", "go", None, now=NOON)
    assert (change.after.roadmap, change.after.flags) == (Roadmap(1, 2), ())
    assert change.events[0].data == {"phase": 2, "by": "user:bob", "comment": "go"}


def test_phase_approval_needs_a_quorum_of_named_reviewers() -> None:
    terms = replace(PEOPLE, reviewers=("bob", "eve"), quorum=2)
    asked = a_composite(roadmap=Roadmap(1, 1, 2), terms=terms)
    with pytest.raises(Forbidden):
        approve(asked, "user:joe", "", None, now=NOON)
    first = approve(asked, "user:bob", "", None, now=NOON)
    assert (first.after.approvals, first.events[0].type) == (("user:bob",), "review_submitted")
    again = approve(first.after, "user:bob", "", None, now=NOON)
    assert again.after.approvals == ("user:bob",)
    second = approve(first.after, "user:eve", "", None, now=NOON)
    assert second.after.roadmap == Roadmap(1, 2)


def test_approving_is_rejected_when_no_phase_waits_for_approval() -> None:
    for composite in (a_composite(), a_composite(roadmap=None)):
        with pytest.raises(IllegalTransition, match="no phase waits for approval"):
            approve(composite, "user:bob", "", None, now=NOON)


def test_approving_a_leaf_job_moves_it_to_testing() -> None:
    change = approve(a_job(stage=Stage.REVIEW), "user:bob", "", None, now=NOON)
    assert change.after.stage is Stage.TESTING


def test_adding_children_raises_the_revision_and_opens_the_first_phase() -> None:
    change = add_children(a_composite(), [a_child(phase=4)], by="user:ann", now=NOON, kept=2)
    assert change.after.roadmap == Roadmap(2, 4)
    assert change.events[0].data == {"revision": 2, "children": 1, "kept": 2}
    bare = add_children(a_composite(roadmap=None), [a_child()], by="user:ann", now=NOON)
    assert bare.after.roadmap == Roadmap(1, None)


def test_adding_children_withdraws_the_phase_request_and_leaves_testing() -> None:
    asked = a_composite(roadmap=Roadmap(1, 1, 2), flags=(PHASE_WAITING, "x"))
    change = add_children(asked, [a_child(phase=1)], by="user:ann", now=NOON)
    assert (change.after.roadmap, change.after.flags) == (Roadmap(2, 1), ("x",))
    tested = add_children(a_composite(stage=Stage.TESTING), [a_child()], by="user:ann", now=NOON)
    assert (tested.after.stage, tested.after.ship) == (Stage.QUEUED, None)


@pytest.mark.parametrize("fields", [{"stage": Stage.SHIPPED}, {"lease": a_lease()}])
def test_shipped_or_leased_composite_rejects_new_children(fields: dict[str, object]) -> None:
    with pytest.raises(IllegalTransition, match="takes children"):
        add_children(a_composite(**fields), [a_child()], by="user:ann", now=NOON)


def test_reopened_child_is_blocked_and_retakes_its_name() -> None:
    ended = a_child(stage=Stage.CANCELLED, checkpoint=a_checkpoint(), attempts=2)
    change = reopen(ended, "user:ann", fresh=False, now=NOON)
    assert (change.after.stage, change.after.attempts) == (Stage.BLOCKED, 0)
    assert (change.take, change.after.checkpoint) == (("name/notes/child",), a_checkpoint())
    fresh = reopen(replace(ended, kind="composite"), "user:ann", fresh=True, now=NOON)
    assert fresh.take == ("name/notes/child", "composite/child-1")
    assert fresh.after.checkpoint is None
    with pytest.raises(IllegalTransition, match="superseded by child-2"):
        reopen(replace(ended, superseded_by="child-2"), "user:ann", fresh=False, now=NOON)


def test_closing_a_finished_composite_frees_its_key() -> None:
    change = close(a_composite(stage=Stage.CANCELLED), now=NOON)
    assert (change.after.stage, change.free) == (Stage.CANCELLED, ("composite/job-1",))


def test_first_phase_is_the_lowest_phase_of_the_children() -> None:
    assert first_phase([a_child(phase=3), a_child(), a_child(phase=2)]) == 2
    assert first_phase([a_child()]) is None
