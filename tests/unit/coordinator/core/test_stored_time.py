"""The time at which the clock of a restarted coordinator continues."""

from gigafactory.coordinator.core.stored_time import BEGINNING, newest_stored_time
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.tenancy.leader import LeaderHeartbeat
from gigafactory.store.memory import MemoryStore
from tests.support.builders import a_job, a_step, a_submission, after


async def test_the_newest_stored_time_is_that_of_the_last_event_or_beat() -> None:
    store = MemoryStore()
    assert await newest_stored_time(store) == BEGINNING
    await store.commit(a_submission(a_job()))
    step = a_step(a_job())
    await store.commit(step)
    assert await newest_stored_time(store) == step.events[-1].at
    beat = LeaderHeartbeat(duty="reaper", until=after(3600))
    await store.commit(RecordChange(before=None, after=beat))
    assert await newest_stored_time(store) == after(3600)
