"""Who dispatches: one at a time, the next when its reign is over, the owner of a store at once."""

from datetime import datetime

from gigafactory.coordinator.leadership import Leadership
from gigafactory.coordinator.ledger import Ledger
from gigafactory.store.memory import MemoryStore
from tests.worlds import after


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return after(self.seconds)


class Contest:
    """Coordinators that stand for one duty in one store."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self._store = MemoryStore()

    def candidate(self, name: str, *, alone: bool = False) -> Leadership:
        ledger = Ledger(self._store, self.clock, None)
        return Leadership(self._store, ledger, self.clock, duty="dispatcher", me=name, alone=alone)


async def test_one_leads_and_the_other_waits_for_the_end_of_its_reign() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert await one.lead()
    contest.clock.seconds = 4.9
    assert not await other.lead()
    contest.clock.seconds = 5.0
    assert await other.lead()
    assert not await one.lead()


async def test_a_reign_that_is_renewed_goes_on() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    for second in range(10):
        contest.clock.seconds = second
        assert await one.lead()
        assert not await other.lead()


async def test_whoever_resigns_is_followed_at_once() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert await one.lead()
    await one.resign()
    assert await other.lead()


async def test_the_owner_of_a_store_does_not_wait_for_a_process_that_is_gone() -> None:
    contest = Contest()
    killed, next_life = contest.candidate("killed"), contest.candidate("next", alone=True)
    assert await killed.lead()
    before = killed.guard
    assert await next_life.lead()
    assert next_life.guard != before
