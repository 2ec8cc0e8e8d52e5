"""A real factory makes way: what it was doing is saved, and goes on after the urgent job."""

from datetime import timedelta
from pathlib import Path

from tests.support.factory.local_fleet import a_yard

HALF_DONE = """
if test -f half.txt; then echo resumed; exit 0; fi
echo half > half.txt
echo begun
exec sleep 600
"""


async def test_a_critical_job_takes_the_only_slot_and_the_other_goes_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    async with a_yard(tmp_path) as yard, yard.factory(slots=1):
        low = await yard.submit(HALF_DONE, name="low", priority="low")
        await yard.prints(low, "begun")
        urgent = await yard.submit("echo now > urgent.txt", name="urgent", priority="critical")
        await yard.rests(urgent)
        waiting = await yard.job(low)
        assert (waiting["stage"], waiting["attempts"]) == ("queued", 0)
        assert waiting["checkpoint"]["commit"]
        # That factory is not asked about this job for half a minute.
        yard.clock.leap(timedelta(seconds=31))
        await yard.rests(low)
        assert "resumed" in await yard.log(low)
        story = await yard.story(low)
        assert story.index("preempt_requested") < story.index("preempted")
        assert story.count("assigned") == 2
        assert "preempting" in await yard.story(urgent)
