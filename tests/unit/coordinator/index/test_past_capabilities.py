"""Past capabilities: a restarted coordinator knows the capabilities of former factories."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.duties.janitor import FORGOTTEN_AFTER
from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.fleet.matching import PastCapabilities
from gigafactory.domain.manifest.job_file import parse_json_job
from tests.support.api_server import SYSTEM
from tests.support.builders import a_factory, after
from tests.support.memory_coordinator import MAC, CoordinatorHarness

ANN = replace(SYSTEM, product="notes")
XCODE = PastCapabilities(frozenset({"os:mac", "has:xcode", "engine:claude"}), ("*",))


@pytest.fixture
def house(tmp_path: Path) -> CoordinatorHarness:
    return CoordinatorHarness(tmp_path)


async def test_capabilities_of_a_deregistered_factory_are_remembered(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    house.clock.seconds = 60
    await fleet.enrolment.deregister(SYSTEM, "mac-1")
    await fleet.index.catch_up()
    again = await house.coordinator()
    assert again.index.fleet.past_capabilities[XCODE] == ("mac-1", after(0))
    job = parse_json_job({"manifest": {"capabilities": ["has:xcode"]}, "body": "Please."})
    made = (await again.submissions.submit(ANN, [job])).jobs[0]
    assert again.jobs.with_fleet_flags(made).flags == ()


async def test_capabilities_of_a_factory_removed_by_the_janitor_are_remembered(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    house.clock.seconds = FORGOTTEN_AFTER.total_seconds() + 1
    await fleet.janitor.step()
    again = await house.coordinator()
    assert again.index.factories == {}
    assert again.index.fleet.past_capabilities == {XCODE: ("mac-1", after(0))}


async def test_lost_capabilities_of_a_factory_are_remembered(house: CoordinatorHarness) -> None:
    fleet = await house.with_factory()
    house.clock.seconds = 60
    poorer = a_factory(capabilities=("os:mac",))
    await fleet.factories.heartbeat(MAC, poorer, Pressure(), ())
    await fleet.factories.save_last_seen()
    again = await house.coordinator()
    assert again.index.fleet.past_capabilities == {XCODE: ("mac-1", after(60))}


async def test_equal_capabilities_name_the_last_factory_that_had_them(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    await fleet.enrolment.deregister(SYSTEM, "mac-1")
    house.clock.seconds = 60
    await house.enroll(fleet, "mac-2")
    second = replace(MAC, actor="factory:mac-2", factory_id="mac-2")
    await fleet.factories.heartbeat(second, a_factory(id="mac-2"), Pressure(), ())
    await fleet.enrolment.deregister(SYSTEM, "mac-2")
    again = await house.coordinator()
    assert again.index.fleet.past_capabilities == {XCODE: ("mac-2", after(60))}
