"""Offers at submission: a job is stored with its offer in one commit if it is next in line."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import LEADER_TTL, Leadership
from gigafactory.domain.job.change import CommitResult, JobChange, Write
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM
from tests.support.memory_coordinator import MAC, CoordinatorHarness

ANN = replace(SYSTEM, product="notes")


class WatchedStore(MemoryStore):
    """A store that counts commits of job changes and can run a competitor before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.first: Callable[[], Awaitable[object]] | None = None

    async def commit(self, *writes: Write) -> CommitResult:
        if any(isinstance(write, JobChange) for write in writes):
            self.commits += 1
            if self.first is not None:
                competitor, self.first = self.first, None
                await competitor()
        return await super().commit(*writes)


class Hall(CoordinatorHarness):
    """A coordinator that leads, with mac-1 on an offer stream."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.watched = self.store = WatchedStore()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Coordinator]:
        fleet = await self.with_factory()
        async with fleet.offer_streams.stream(MAC, "mac-1"):
            await fleet.index.catch_up()
            assert await fleet.leadership.acquire()
            yield fleet

    async def overthrow(self) -> None:
        """Let another coordinator become leader without the knowledge of this one."""
        self.clock.seconds += LEADER_TTL.total_seconds()
        committer = Committer(self.store, self.clock, None)
        other = Leadership(self.store, committer, self.clock, duty="dispatcher", me="other")
        assert await other.acquire()
        self.clock.seconds -= LEADER_TTL.total_seconds()


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


async def submitted(fleet: Coordinator, *names: str, **manifest: object) -> list[Job]:
    asked = {"engine": "claude", "verify": "true", **manifest}
    files = [
        parse_json_job({"manifest": asked | {"name": name}, "body": "Please."}) for name in names
    ]
    made = await fleet.submissions.submit(ANN, files)
    await fleet.index.catch_up()
    stored = await fleet.store.jobs([job.id for job in made.jobs])
    assert stored == {job.id: job for job in made.jobs}, "what is told is what is stored"
    return list(made.jobs)


async def story(fleet: Coordinator, job: Job) -> list[str]:
    return [event.type for event in await fleet.store.events(job.id)]


async def test_job_and_its_offer_are_stored_in_one_commit(hall: Hall) -> None:
    async with hall.listening() as fleet:
        [job] = await submitted(fleet, "greet")
        assert job.offer is not None
        assert job.offer.factory_id == "mac-1"
        assert await story(fleet, job) == ["submitted", "offered"]
        assert hall.watched.commits == 1
        await fleet.dispatcher.step()
        assert hall.watched.commits == 1
        grant = await fleet.claims.accept(MAC, "mac-1", job.id, f"{job.id}.1")
        assert grant.lease.factory_id == "mac-1"


async def test_job_that_cannot_run_now_is_stored_without_an_offer(hall: Hall) -> None:
    async with hall.listening() as fleet:
        [job] = await submitted(fleet, "elsewhere", engine="codex")
        assert await story(fleet, job) == ["submitted"]
        assert fleet.index.queue.find(job.id) is not None


async def test_new_job_is_not_offered_before_jobs_ahead_of_it(hall: Hall) -> None:
    async with hall.listening() as fleet:
        first, second = await submitted(fleet, "first", "second")
        [late] = await submitted(fleet, "late")
        assert late.offer is None
        await fleet.dispatcher.step()
        assert await story(fleet, first) == ["submitted", "offered"]
        assert await story(fleet, second) == ["submitted", "offered"]


async def test_coordinator_that_is_not_leader_offers_nothing(hall: Hall) -> None:
    async with hall.listening() as fleet:
        hall.clock.seconds += LEADER_TTL.total_seconds()
        [job] = await submitted(fleet, "greet")
        assert await story(fleet, job) == ["submitted"]


async def test_deposed_leader_stores_the_job_without_its_offer(
    hall: Hall,
) -> None:
    async with hall.listening() as fleet:
        hall.watched.first = hall.overthrow
        [job] = await submitted(fleet, "greet")
        assert await story(fleet, job) == ["submitted"]
        assert fleet.index.queue.find(job.id) is not None
        assert fleet.index.fleet.free_seats("mac-1", "claude", hall.clock.now()) > 0
        assert len(list(fleet.index.queue.classes())) == 1


async def test_failed_submission_releases_its_reservation(hall: Hall) -> None:
    async def broken() -> None:
        raise ConnectionError

    async with hall.listening() as fleet:
        free = fleet.index.fleet.free_seats("mac-1", "claude", hall.clock.now())
        hall.watched.first = broken
        with pytest.raises(ConnectionError):
            await submitted(fleet, "greet")
        await fleet.index.catch_up()
        assert not list(fleet.index.queue.classes())
        assert fleet.index.fleet.free_seats("mac-1", "claude", hall.clock.now()) == free
