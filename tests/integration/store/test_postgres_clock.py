"""The database's time, told by clocks that know nothing of each other."""

from datetime import timedelta

from gigafactory.store.postgres.clock import DatabaseClock, seconds_since_boot
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.store.rows import from_millis

MILLISECOND = timedelta(milliseconds=1)


class Hand:
    """A steady clock that a test moves."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


async def told(store: PostgresStore) -> float:
    """The database's time in seconds, since a clock that stands still is behind by just that."""
    return await store.measure_offset(Hand(0.0))


async def test_coordinators_with_different_clocks_agree(database: str) -> None:
    async with PostgresStore.open(database) as store:
        early = await told(store)
        slow = await DatabaseClock.start(store.measure_offset, steady=Hand(-5e6))
        quick = await DatabaseClock.start(store.measure_offset, steady=Hand(7e6))
        late = await told(store)
        times = [
            from_millis(int(early * 1000)),
            slow.now(),
            quick.now(),
            from_millis(int(late * 1000)),
        ]
        assert times == sorted(times)


async def test_the_time_goes_on_between_measurements_in_whole_milliseconds() -> None:
    async def ahead(_: object) -> float:
        return 100.0

    hand = Hand(1.0)
    clock = await DatabaseClock.start(ahead, steady=hand)
    assert clock.now() == from_millis(101_000)
    hand.at = 1.0029
    assert clock.now() == from_millis(101_002)


async def test_the_time_never_goes_back() -> None:
    offsets = iter([100.0, 99.0, 102.0])

    async def measured(_: object) -> float:
        return next(offsets)

    hand = Hand(0.0)
    clock = await DatabaseClock.start(measured, steady=hand)
    first = clock.now()
    await clock.measure_offset()
    assert clock.now() == first
    hand.at = 1.5
    assert clock.now() == first + 500 * MILLISECOND
    await clock.measure_offset()
    assert clock.now() == first + 3_500 * MILLISECOND


def test_the_steady_clock_does_not_go_back() -> None:
    assert seconds_since_boot() <= seconds_since_boot()
