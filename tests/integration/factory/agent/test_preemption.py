"""Preemption on a real factory: the running job is saved and resumes after the urgent one."""

from datetime import timedelta
from pathlib import Path

from tests.support.factory.local_fleet import a_local_harness

HALF_DONE = """
if test -f half.txt; then echo resumed; exit 0; fi
echo half > half.txt
echo begun
exec sleep 600
"""


async def test_critical_job_preempts_the_only_slot_and_the_other_resumes(
    tmp_path: Path,
) -> None:
    async with a_local_harness(tmp_path) as harness, harness.factory(slots=1):
        low = await harness.submit(HALF_DONE, name="low", priority="low")
        await harness.wait_for_log(low, "begun")
        urgent = await harness.submit("echo now > urgent.txt", name="urgent", priority="critical")
        await harness.wait_until_idle(urgent)
        waiting = await harness.job(low)
        assert (waiting["stage"], waiting["attempts"]) == ("queued", 0)
        assert waiting["checkpoint"]["commit"]
        # A job that was preempted is not offered to the same factory for 30 seconds.
        harness.clock.advance(timedelta(seconds=31))
        await harness.wait_until_idle(low)
        assert "resumed" in await harness.log(low)
        story = await harness.event_types(low)
        assert story.index("preempt_requested") < story.index("preempted")
        assert story.count("assigned") == 2
        assert "preempting" in await harness.event_types(urgent)
