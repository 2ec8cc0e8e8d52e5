"""Shipping through GitHub by a factory that has lost its lease: no effect is repeated."""

import asyncio

import pytest

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.phases.ship import ship
from tests.support.factory.github_repo import GitHubRepo, RecordingTransport, ShippingRuns, forges

pytestmark = pytest.mark.service

OPEN, MERGE, TAKE_BACK = "POST pulls", "PUT merge", "PATCH 2"


async def test_run_with_a_lost_lease_changes_nothing_on_the_forge(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    wire = RecordingTransport()
    run, reporter = desk.run(forges(hub, wire), commit=work)
    reporter.holds_lease = False
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, run.stop.reason) == (Result.LOST, StopReason.FENCED)
    assert (wire.changes, await hub.pulls()) == ([], [])


@pytest.mark.parametrize("late_with", [OPEN, MERGE])
async def test_change_in_flight_when_the_lease_is_lost_is_not_done_twice(
    hub: GitHubRepo, work: str, desk: ShippingRuns, late_with: str
) -> None:
    late, wire = (
        RecordingTransport(sleeps_before=[OPEN, MERGE].index(late_with) + 1),
        RecordingTransport(),
    )
    sleeper, reporter = desk.run(forges(hub, late), commit=work, merge_style="squash")
    async with asyncio.TaskGroup() as group:
        shipping = group.create_task(ship(sleeper))
        await late.blocked.wait()
        reporter.holds_lease = False
        successor, _ = desk.run(forges(hub, wire), commit=work, run_id="job-1.3")
        assert await ship(successor) is None
        base = await hub.commit_of("main")
        late.woken.set()
    assert await hub.commit_of("main") == base
    pulls = await hub.pulls()
    assert [pull["state"] for pull in pulls] == ["closed"] * len(pulls)
    assert len([pull for pull in pulls if pull["merged_at"]]) == 1
    outcome = shipping.result()
    if late_with == OPEN:
        assert (late.changes, wire.changes) == ([OPEN, TAKE_BACK], [OPEN, MERGE])
        assert outcome is not None
        assert outcome.result is Result.LOST
    else:
        assert (late.changes, wire.changes) == ([OPEN], [MERGE])
        assert outcome is None


async def test_pull_request_opened_late_is_used_by_the_next_run(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    late, wire = RecordingTransport(sleeps_before=1), RecordingTransport()
    sleeper, reporter = desk.run(forges(hub, late), commit=work)
    async with asyncio.TaskGroup() as group:
        shipping = group.create_task(ship(sleeper))
        await late.blocked.wait()
        reporter.holds_lease = False
        late.woken.set()
    outcome = shipping.result()
    assert outcome is not None
    assert outcome.result is Result.LOST
    successor, _ = desk.run(forges(hub, wire), commit=work, run_id="job-1.3")
    assert await ship(successor) is None
    assert (late.changes, wire.changes) == ([OPEN], [MERGE])
