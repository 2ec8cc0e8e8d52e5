"""Leadership of a duty: one leader at a time; an exclusive owner of the store leads at once."""

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import LEADER_TTL, Leadership
from gigafactory.coordinator.core.ports import AnyRecord
from gigafactory.coordinator.dispatch.dispatcher import OFFERS_AT_ONCE, Dispatcher
from gigafactory.coordinator.dispatch.shadow_dispatcher import ShadowDispatcher
from gigafactory.coordinator.index.index import Index
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.job.change import RecordChange
from gigafactory.store.memory import MemoryStore
from tests.support.builders import a_factory, a_job, a_submission
from tests.support.memory_coordinator import ManualClock


class CountingStore(MemoryStore):
    """A store that counts reads of records."""

    looks = 0

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        self.looks += 1
        return await super().record(of, key)


class Contest:
    """Coordinators that compete for one duty in one store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = CountingStore()

    def candidate(self, name: str, *, alone: bool = False) -> Leadership:
        committer = Committer(self.store, self.clock, None)
        return Leadership(
            self.store, committer, self.clock, duty="dispatcher", me=name, exclusive=alone
        )


async def test_second_candidate_waits_for_the_end_of_the_leadership() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert await one.acquire()
    contest.clock.seconds = 2.9
    assert not await other.acquire()
    contest.clock.seconds = 3.0
    assert await other.acquire()
    assert not await one.acquire()


async def test_renewed_leadership_continues() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    for second in range(10):
        contest.clock.seconds = second
        assert await one.acquire()
        assert not await other.acquire()


async def test_resigned_leader_is_replaced_at_once() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert await one.acquire()
    await one.resign()
    assert await other.acquire()


async def test_waiting_candidate_reads_the_store_at_intervals() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert await one.acquire()
    contest.store.looks = 0
    for _ in range(1000):
        contest.clock.seconds += 0.001
        assert not await other.acquire()
    assert contest.store.looks < 10


async def test_long_dispatcher_step_keeps_its_leadership() -> None:
    contest = Contest()
    clock = contest.clock
    leader, rival = contest.candidate("leader"), contest.candidate("rival")
    index = Index(contest.store, clock, fleet_seats={})
    committer = Committer(contest.store, clock, None)
    shadow = ShadowDispatcher(contest.store, committer, clock, index, leader, LocalDispatch())
    dispatcher = Dispatcher(contest.store, committer, clock, index, leader, shadow)
    jobs = OFFERS_AT_ONCE + 1
    seats = {"claude": EngineSeats(seats=jobs)}
    streaming = a_factory(slots=jobs, engines=seats, streaming="leader")
    await contest.store.commit(RecordChange(before=None, after=streaming))
    for number in range(jobs):
        await contest.store.commit(a_submission(a_job(id=f"job-{number}", name=f"n{number}")))
    await index.load()
    index.record_sign_of_life(streaming.id, clock.now())
    clock.step_s = 0.01
    await dispatcher.step()
    clock.step_s = 0.0
    assert len(index.assignments.offered_jobs(streaming.id)) == jobs
    assert clock.seconds > LEADER_TTL.total_seconds()
    assert not await rival.acquire()


async def test_sole_owner_of_a_store_takes_over_from_a_dead_leader_at_once() -> None:
    contest = Contest()
    killed, next_life = contest.candidate("killed"), contest.candidate("next", alone=True)
    assert await killed.acquire()
    before = killed.guard
    assert await next_life.acquire()
    assert next_life.guard != before


async def test_sole_owner_of_a_store_writes_its_leadership_once() -> None:
    contest = Contest()
    owner = contest.candidate("owner", alone=True)
    assert await owner.acquire()
    contest.store.looks = 0
    contest.clock.seconds = 3600
    assert await owner.acquire()
    assert contest.store.looks == 0


async def test_leader_leads_until_another_could_take_over() -> None:
    contest = Contest()
    one, other = contest.candidate("one"), contest.candidate("other")
    assert not one.is_leader(contest.clock.now())
    assert await one.acquire()
    contest.clock.seconds = 2.9
    assert one.is_leader(contest.clock.now())
    assert not other.is_leader(contest.clock.now())
    contest.clock.seconds = 3.0
    assert not one.is_leader(contest.clock.now())
