"""Requests for the ship step, by a person or by policy."""

import pytest

from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job.job import Stage, Terms
from gigafactory.domain.job.lifecycle import ask_to_ship
from gigafactory.domain.job.operator_actions import approve, requeue
from gigafactory.domain.job.run_outcome import Progress, succeed
from gigafactory.domain.submission.submission import reevaluate
from tests.support.builders import NOON, a_job, a_running_job

VERIFIED = Progress(verify={"passed": True})


def test_ship_request_adds_a_ship_step_and_keeps_the_stage() -> None:
    change = ask_to_ship(a_job(stage=Stage.TESTING), "user:ann", actor="user:ann", now=NOON)
    assert change.after.stage is Stage.TESTING
    assert change.after.step is not None
    assert [event.type for event in change.events] == ["ship_requested"]


def test_ship_request_ships_a_job_with_ship_none_at_once() -> None:
    report = a_job(stage=Stage.TESTING, terms=Terms(ship="none"))
    change = ask_to_ship(report, "user:ann", actor="user:ann", now=NOON)
    assert change.after.stage is Stage.SHIPPED
    assert change.after.ship is None


def test_policy_ships_a_verified_report_without_a_person_or_a_second_lease() -> None:
    terms = Terms(ship="none", auto_ship=True, verify=True, review_by_people=False)
    change = succeed(
        a_running_job(terms=terms), "mac-1", 1, VERIFIED, wants=Stage.TESTING, now=NOON
    )
    assert change.after.stage is Stage.SHIPPED
    assert [event.type for event in change.events][-2:] == ["ship_requested", "shipped"]


def test_approval_of_verified_work_ships_by_policy() -> None:
    job = a_job(stage=Stage.REVIEW, verified=True, terms=Terms(auto_ship=True, verify=True))
    change = approve(job, "user:ann", "", None, now=NOON)
    assert change.after.stage is Stage.TESTING
    assert change.after.ship is not None
    assert change.after.ship.by == "policy"


def test_superseded_job_cannot_be_requeued() -> None:
    old = a_job(stage=Stage.CANCELLED, superseded_by="job-2")
    with pytest.raises(IllegalTransition, match="superseded by job-2"):
        requeue(old, "user:ann", fresh=False, now=NOON)


def test_job_with_a_superseded_dependency_waits_for_the_newer_job() -> None:
    old = a_job(id="old", stage=Stage.CANCELLED, superseded_by="new")
    waiting = a_job(id="w", stage=Stage.BLOCKED, deps=("old", "other"))
    change = reevaluate(waiting, [old, a_job(id="other")], now=NOON)
    assert change is not None
    assert change.after.stage is Stage.BLOCKED
    assert change.after.deps == ("new", "other")
