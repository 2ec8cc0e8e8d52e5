"""Signs of life: every request of a factory shows that it is online, even after a restart."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Fenced, NotFound, TwinFactory
from gigafactory.domain.fleet.factory import OFFLINE_AFTER, Pressure, Vitals, is_online
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM
from tests.support.builders import a_factory, after
from tests.support.memory_coordinator import MAC, CoordinatorHarness

ANN = replace(SYSTEM, product="notes")
LONG_S = OFFLINE_AFTER.total_seconds() * 2


async def after_an_outage(house: CoordinatorHarness) -> Coordinator:
    """Start the next coordinator, for which mac-1 has been silent for a long time."""
    house.clock.seconds += LONG_S
    fleet = await house.coordinator()
    assert not sees(house, fleet)
    return fleet


def sees(house: CoordinatorHarness, fleet: Coordinator) -> bool:
    """Return whether a coordinator considers mac-1 online."""
    return is_online(fleet.factories.vitals("mac-1"), house.clock.now())


@pytest.fixture
def house(tmp_path: Path) -> CoordinatorHarness:
    return CoordinatorHarness(tmp_path)


async def granted(fleet: Coordinator) -> Grant:
    """Submit a job and return its grant to mac-1."""
    await fleet.submissions.submit(ANN, [parse_json_job({"body": "Please."})])
    (grant,) = await fleet.claims.claim(MAC, "mac-1")
    return grant


async def test_claiming_factory_is_online_at_once_after_an_outage(
    house: CoordinatorHarness,
) -> None:
    await house.with_factory()
    fleet = await after_an_outage(house)
    assert (await granted(fleet)).lease.factory_id == "mac-1"
    assert sees(house, fleet)


async def test_renewing_factory_is_online(house: CoordinatorHarness) -> None:
    grant = await granted(await house.with_factory())
    fleet = await after_an_outage(house)
    await fleet.claims.renew(MAC, grant.job.id, grant.lease.epoch)
    assert sees(house, fleet)


async def test_reporting_factory_is_online(house: CoordinatorHarness) -> None:
    grant = await granted(await house.with_factory())
    fleet = await after_an_outage(house)
    report = Report(job_id=grant.job.id, epoch=grant.lease.epoch, stage=Stage.BUILDING)
    await fleet.reports.report(MAC, report)
    assert sees(house, fleet)


async def test_fenced_factory_is_online(house: CoordinatorHarness) -> None:
    grant = await granted(await house.with_factory())
    fleet = await after_an_outage(house)
    with pytest.raises(Fenced):
        await fleet.claims.renew(MAC, grant.job.id, grant.lease.epoch + 1)
    assert sees(house, fleet)


async def test_factory_that_opens_its_stream_is_online(house: CoordinatorHarness) -> None:
    await house.with_factory()
    fleet = await after_an_outage(house)
    async with fleet.offer_streams.stream(MAC, "mac-1"):
        assert sees(house, fleet)


async def test_sign_of_life_keeps_the_reported_pressure(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    house.clock.seconds += 60
    await fleet.claims.claim(MAC, "mac-1")
    known = fleet.factories.vitals("mac-1")
    assert known == Vitals(last_seen=house.clock.now(), pressure=Pressure(disk=0.5))


async def test_signs_of_life_are_recorded_at_intervals(house: CoordinatorHarness) -> None:
    fleet = await house.with_factory()
    house.clock.seconds += 1
    await fleet.claims.claim(MAC, "mac-1")
    known = fleet.factories.vitals("mac-1")
    assert known is not None
    assert known.last_seen == after(0)


async def test_other_coordinators_learn_of_signs_of_life(house: CoordinatorHarness) -> None:
    first = await house.with_factory()
    second = await house.coordinator()
    house.clock.seconds += LONG_S
    await first.claims.claim(MAC, "mac-1")
    await first.factories.save_last_seen()
    await second.factories.save_last_seen()
    assert sees(house, second)


async def test_deregistered_factory_is_not_brought_back_by_a_late_renewal(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    grant = await granted(fleet)
    house.clock.seconds += LONG_S
    await fleet.enrolment.deregister(SYSTEM, "mac-1")
    await fleet.index.catch_up()
    with pytest.raises(NotFound):
        await fleet.claims.claim(MAC, "mac-1")
    await fleet.claims.renew(MAC, grant.job.id, grant.lease.epoch)
    await fleet.factories.save_last_seen()
    assert "mac-1" not in fleet.index.factories
    assert await house.store.last_seen() == {"mac-1": after(0)}


async def test_a_copied_data_folder_ends_no_lease_and_is_named(house: CoordinatorHarness) -> None:
    fleet = await house.with_factory()
    here, there = a_factory(place="one:/data"), a_factory(place="two:/data", instance_id="copy")
    await fleet.factories.heartbeat(MAC, here, Pressure(), ())
    grant = await granted(fleet)
    with pytest.raises(TwinFactory, match="already running at one:/data"):
        await fleet.factories.heartbeat(MAC, there, Pressure(), ())
    job = await house.store.job(grant.job.id)
    assert job is not None
    assert job.lease == grant.lease
    await fleet.claims.renew(MAC, grant.job.id, grant.lease.epoch)
    (item,) = [i for i in await fleet.attention.list(ANN) if i.kind == "factory_twin"]
    assert (item.subject, "two:/data" in item.reason) == ("mac-1", True)
    house.clock.seconds += LONG_S
    await fleet.factories.heartbeat(MAC, there, Pressure(), ())
    with pytest.raises(TwinFactory):
        await fleet.factories.heartbeat(MAC, here, Pressure(), ())
    with pytest.raises(TwinFactory):
        await fleet.claims.claim(MAC, "mac-1", instance_id=here.instance_id)
    house.clock.seconds += LONG_S * 2
    assert not [i for i in await fleet.attention.list(ANN) if i.kind == "factory_twin"]


async def test_a_copied_machine_that_is_started_again_and_again_ends_no_lease(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()

    async def beat(instance: str) -> None:
        process = a_factory(place="host:/data", instance_id=instance)
        await fleet.factories.heartbeat(MAC, process, Pressure(), ())

    await beat("one")
    await beat("copy")
    grant = await granted(fleet)
    # The machine has the same name and folders, so only this heartbeat shows that there are two.
    with pytest.raises(TwinFactory):
        await beat("one")
    for number in range(3):
        with pytest.raises(TwinFactory):
            await beat(f"one, started again {number}")
        house.clock.seconds += 20
        await beat("copy")
    await fleet.claims.renew(MAC, grant.job.id, grant.lease.epoch)
    house.clock.seconds += LONG_S
    await beat("one, alone")


class StoreWithOneSlowRead(MemoryStore):
    """Holds the next read of a job until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: asyncio.Event | None = None
        self.reading = asyncio.Event()

    async def job(self, job_id: str) -> Job | None:
        slow, self.slow = self.slow, None
        if slow is not None:
            self.reading.set()
            await slow.wait()
        return await super().job(job_id)


async def test_a_slow_heartbeat_of_a_replaced_process_ends_no_lease_of_the_new_one(
    house: CoordinatorHarness,
) -> None:
    store = house.store = StoreWithOneSlowRead()
    fleet = await house.with_factory()
    await granted(fleet)
    go_on = store.slow = asyncio.Event()
    second, third = a_factory(instance_id="second"), a_factory(instance_id="third")
    late = asyncio.create_task(fleet.factories.heartbeat(MAC, second, Pressure(), ()))
    await store.reading.wait()
    await fleet.factories.heartbeat(MAC, third, Pressure(), ())
    (grant,) = await fleet.claims.claim(MAC, "mac-1", instance_id="third")
    go_on.set()
    await late
    job = await store.job(grant.job.id)
    assert job is not None
    assert job.lease == grant.lease


async def test_a_new_process_ends_the_revoked_lease_and_the_live_one_at_once(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    grant = await granted(fleet)
    await fleet.actions.act(ANN, grant.job.id, "cancel", ActionRequest())
    await fleet.actions.act(ANN, grant.job.id, "requeue", ActionRequest())
    (again,) = await fleet.claims.claim(MAC, "mac-1")
    second = a_factory(instance_id="second")
    await fleet.factories.heartbeat(MAC, second, Pressure(), ())
    job = await house.store.job(again.job.id)
    assert job is not None
    assert (job.lease, job.ending, job.stage) == (None, (), Stage.QUEUED)


async def test_a_claim_that_is_repeated_while_the_first_waits_gets_its_answer(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    await fleet.submissions.submit(ANN, [parse_json_job({"body": "Please."})])
    caller = replace(MAC, request_key="claim-1")
    first, second = await asyncio.gather(
        fleet.claims.claim(caller, "mac-1"), fleet.claims.claim(caller, "mac-1", wait_s=1.0)
    )
    assert len(first) == 1
    assert first == second
    caller = replace(MAC, request_key="claim-2")
    waiting = asyncio.create_task(fleet.claims.claim(caller, "mac-1"))
    repeated = asyncio.create_task(fleet.claims.claim(caller, "mac-1", wait_s=30.0))
    assert await waiting == []
    await fleet.submissions.submit(ANN, [parse_json_job({"body": "Too late."})])
    assert await repeated == []
