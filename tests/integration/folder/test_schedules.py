"""Schedules of a folder: copies at their times, one for all missed ticks, never two at once."""

import shutil
from datetime import timedelta

from gigafactory.folder.queue.record import JobRecord
from tests.support.folder_queue import FolderHarness

DAY = timedelta(days=1)
REPORT = {"schedule": "0 3 * * *", "verify": "true", "ship": "none"}


def copies(place: FolderHarness) -> list[JobRecord]:
    """Return the copies of the template, oldest first."""
    made = [k for k in place.queue.look().values() if k.key.startswith("nightly-")]
    return sorted(made, key=lambda kept: kept.job.id)


async def test_template_submits_a_copy_at_each_tick(place: FolderHarness) -> None:
    place.drop("nightly", "echo words", **REPORT, ship_policy="auto")
    await place.run()
    template = place.job("nightly")
    assert (template.stage, copies(place)) == ("blocked", [])
    assert "runs a copy at" in place.shell.aq("status").out
    due = template.not_before
    assert due is not None
    place.clock.advance(due - place.clock.now())
    await place.run()
    (copy,) = copies(place)
    assert copy.job.name == f"nightly-{due:%Y%m%d}-0300"
    assert (copy.job.stage, copy.job.terms.schedule) == ("shipped", None)
    assert place.columns_of(copy.key) == ["shipped"]
    assert "words\n" in place.log(copy.key)
    assert place.job("nightly").not_before == due + DAY
    assert place.event_types("nightly") == ["submitted", "ticked"]
    place.clock.advance(DAY)
    await place.run()
    assert len(copies(place)) == 2


async def test_missed_ticks_submit_one_copy(place: FolderHarness) -> None:
    place.drop("nightly", "true", **REPORT, ship_policy="auto")
    await place.run()
    place.clock.advance(5 * DAY)
    await place.run()
    assert len(copies(place)) == 1
    due = place.job("nightly").not_before
    assert due is not None
    assert place.clock.now() < due <= place.clock.now() + DAY


async def test_tick_is_skipped_while_the_last_copy_is_unfinished(place: FolderHarness) -> None:
    place.drop("nightly", "true", **REPORT)
    await place.run()
    for _ in range(2):
        place.clock.advance(DAY)
        await place.run()
    (copy,) = copies(place)
    assert copy.job.stage == "testing"
    assert place.event_types("nightly") == ["submitted", "ticked", "tick_skipped"]
    # An edited template still knows its unfinished copy.
    place.drop("nightly", "echo other", **REPORT)
    place.clock.advance(DAY)
    await place.run()
    assert len(copies(place)) == 1


async def test_removed_file_cancels_its_template(place: FolderHarness) -> None:
    place.drop("nightly", "true", **REPORT)
    await place.run()
    (place.board.column("inbox") / "nightly.md").unlink()
    place.clock.advance(DAY)
    await place.run()
    assert place.job("nightly").stage == "cancelled"
    assert copies(place) == []


async def test_scheduled_copy_runs_after_lost_records_are_rebuilt(
    place: FolderHarness,
) -> None:
    place.drop("nightly", "echo words", **REPORT)
    await place.run()
    place.clock.advance(DAY)
    await (await place.runner(wanted=lambda _: False)).run(once=True)
    (copy,) = copies(place)
    assert place.columns_of(copy.key) == ["inbox"]
    shutil.rmtree(place.board.state)
    place.queue = place.reopen()
    await place.run()
    assert place.job(copy.key).stage == "testing"
    assert place.job("nightly").stage == "blocked"
