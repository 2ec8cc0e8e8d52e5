"""Schedules: a template submits a new copy at each tick, never two at once."""

from datetime import datetime, timedelta

import msgspec

from gigafactory.domain.job.job import Job, JobSpec, Stage, Terms
from gigafactory.domain.submission.schedule import next_tick, tick
from tests.support.builders import NOON, a_job

EVERY_HOUR = Terms(schedule="0 * * * *")
SPEC = JobSpec("nightly", msgspec.Raw(b"{}"), "Clean up.\n")


def a_template(**fields: object) -> Job:
    return a_job(
        id="nightly",
        name="nightly",
        stage=Stage.BLOCKED,
        terms=EVERY_HOUR,
        not_before=NOON,
        **fields,
    )


def test_next_tick_is_later_than_the_given_time() -> None:
    assert next_tick("0 * * * *", NOON) == NOON + timedelta(hours=1)


def test_tick_submits_a_copy_and_sets_the_next_tick_in_one_commit() -> None:
    ticked, copied = tick(a_template(), SPEC, None, [], copy_id="copy-1", now=NOON)
    assert ticked.after.not_before == NOON + timedelta(hours=1)
    assert ticked.after.copy_id == "copy-1"
    assert ticked.after.stage is Stage.BLOCKED, "the template itself never runs"
    assert [event.type for event in ticked.events] == ["ticked"]
    copy = copied.after
    assert (copy.id, copy.stage, copy.terms.schedule) == ("copy-1", Stage.QUEUED, None)
    assert copy.name == f"nightly-{NOON:%Y%m%d-%H%M}"
    assert copied.spec == JobSpec("copy-1", SPEC.manifest, SPEC.body)


def test_ticks_for_the_same_time_take_the_same_key() -> None:
    first = tick(a_template(), SPEC, None, [], copy_id="copy-1", now=NOON)[1]
    second = tick(a_template(), SPEC, None, [], copy_id="copy-2", now=NOON)[1]
    assert set(first.take) == set(second.take)


def test_tick_is_skipped_while_the_previous_copy_is_unfinished() -> None:
    running = a_job(id="copy-1", stage=Stage.BUILDING)
    (skipped,) = tick(a_template(copy_id="copy-1"), SPEC, running, [], copy_id="copy-2", now=NOON)
    assert [event.type for event in skipped.events] == ["tick_skipped"]
    assert skipped.after.copy_id == "copy-1"
    assert skipped.after.not_before == NOON + timedelta(hours=1)


def test_tick_submits_a_copy_after_the_previous_one_finished() -> None:
    done = a_job(id="copy-1", stage=Stage.SHIPPED)
    changes = tick(a_template(copy_id="copy-1"), SPEC, done, [], copy_id="copy-2", now=NOON)
    assert [change.after.id for change in changes] == ["nightly", "copy-2"]


def test_missed_ticks_are_not_made_up_for() -> None:
    late: datetime = NOON + timedelta(hours=5, minutes=1)
    ticked, _ = tick(a_template(), SPEC, None, [], copy_id="copy-1", now=late)
    assert ticked.after.not_before == NOON + timedelta(hours=6)


def test_copy_waits_for_the_dependencies_of_its_template() -> None:
    dep = a_job(id="dep", stage=Stage.BUILDING)
    _, copied = tick(a_template(deps=("dep",)), SPEC, None, [dep], copy_id="copy-1", now=NOON)
    assert copied.after.stage is Stage.BLOCKED
