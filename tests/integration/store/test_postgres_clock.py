"""The database's time, computed by coordinators with independent local clocks."""

from datetime import timedelta

from gigafactory.coordinator.core.stored_time import REAPER
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.tenancy.leader import LeaderHeartbeat
from gigafactory.store.postgres.clock import DatabaseClock
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.store.rows import from_millis
from gigafactory.system.clock import SECOND_NS
from gigafactory.wiring.coordinator import open_store
from tests.support.polling import until

MILLISECOND = timedelta(milliseconds=1)


class Hand:
    """A monotonic clock that the test sets."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> int:
        return round(self.at * SECOND_NS)


async def database_time(store: PostgresStore) -> float:
    """Return the database's time in seconds: its offset from a clock that is always 0."""
    return await store.measure_offset(lambda: 0.0)


async def test_coordinators_with_different_local_clocks_agree(database: str) -> None:
    async with PostgresStore.open(database) as store:
        early = await database_time(store)
        slow = await DatabaseClock.start(store.measure_offset, steady=Hand(-5e6))
        quick = await DatabaseClock.start(store.measure_offset, steady=Hand(7e6))
        late = await database_time(store)
        times = [
            from_millis(int(early * 1000)),
            slow.now(),
            quick.now(),
            from_millis(int(late * 1000)),
        ]
        assert times == sorted(times)


async def test_clock_advances_between_measurements_in_whole_milliseconds() -> None:
    async def ahead(_: object) -> float:
        return 100.0

    hand = Hand(1.0)
    clock = await DatabaseClock.start(ahead, steady=hand)
    assert clock.now() == from_millis(101_000)
    hand.at = 1.0029
    assert clock.now() == from_millis(101_002)


async def test_clock_never_goes_back() -> None:
    offsets = iter([100.0, 40.0])

    async def measured(_: object) -> float:
        return next(offsets)

    hand = Hand(0.0)
    clock = await DatabaseClock.start(measured, steady=hand)
    first = clock.now()
    await clock.measure_offset()
    assert clock.now() == first
    hand.at = 10.0
    assert clock.now() == first + 9_900 * MILLISECOND


async def test_a_start_behind_the_stored_time_goes_on_from_there(database: str) -> None:
    async with PostgresStore.open(database) as store:
        known = await DatabaseClock.start(store.measure_offset)
        stored = known.now() + timedelta(hours=1)
        clock = await DatabaseClock.start(store.measure_offset, not_before=stored)
        assert stored <= clock.now() < stored + timedelta(minutes=1)


async def test_a_coordinator_whose_machine_was_suspended_agrees_with_the_others_again(
    database: str,
) -> None:
    async with open_store(database) as (store, clock), open_store(database) as (_, other):
        assert isinstance(clock, DatabaseClock)
        assert isinstance(other, DatabaseClock)
        ahead = other.now() + timedelta(seconds=200)
        beat = LeaderHeartbeat(duty=REAPER, until=ahead)
        assert isinstance(await store.commit(RecordChange(before=None, after=beat)), Stored)
        await until(lambda: clock.now() >= ahead and other.now() >= ahead)
