"""Crash scenarios of preemption, tickets and retention."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx

from gigafactory.domain.tracker.webhook_delivery import signature
from tests.services.items_server import TOKEN, Items
from tests.support.crash.restarting_coordinator import RestartingCoordinator
from tests.support.crash.retrying_client import RetryingClient, enroll_factory
from tests.support.polling import until

LAPSE_S = 50 * 3600.0
"""Longer than the retention of finished jobs and than any claim of unfinished work."""
LOOKS_S = 6.0
TRIES_MAX = 8


async def preempt_job(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Submit a critical job while the only seat is taken, and run it."""
    factory = await enroll_factory(admin, "mac-1")
    factory.slots = 1
    await factory.beat()
    low = await admin.submit("low", priority="low")
    grant = await factory.granted()
    await admin.submit("urgent", priority="critical")

    async def is_preempted() -> bool:
        return bool((await factory.beat(low))["commands"] == [{"type": "preempt", "jobId": low}])

    await until(is_preempted)
    where = f"/jobs/{low}/lease/release"
    (await factory.ask("POST", where, {"leaseEpoch": grant["leaseEpoch"]})).require()
    grant = await factory.granted()
    assert grant["job"]["name"] == "urgent"
    await factory.build(grant)


async def deliver_ticket(
    coordinator: RestartingCoordinator, admin: RetryingClient, tracker: Items
) -> None:
    """Deliver a ticket that becomes a job, and expect each update of it once."""
    item = tracker.file("Say hello")
    body = json.dumps({"item": tracker.items[item]}).encode()
    headers = {"x-hub-signature-256": signature(TOKEN.encode(), body), "x-github-delivery": "1"}

    async def is_accepted() -> bool:
        process = coordinator.process
        where = f"{process.url}/api/fleet/tracker/webhook?product=notes"
        try:
            answer = await admin.http.post(where, headers=headers, content=body)
        except httpx.HTTPError:
            # A client without a response sends it again, and may get the stored response.
            await coordinator.wait_for_restart(process)
            return False
        return answer.status_code in {202, 409}

    await until(is_accepted, within_s=60)

    async def update_count() -> int:
        response = (await admin.ask("GET", "/jobs/say-hello/events")).require()
        return [event["type"] for event in response["events"]].count("tracker_echoed")

    async def is_updated() -> bool:
        return await update_count() == 1

    await wait_across_restarts(coordinator, is_updated)
    assert tracker.stages(item) == ["fleet:queued"]
    await admin.act("say-hello", "cancel", reason="after all not")

    async def is_updated_at_end() -> bool:
        return await update_count() == 2 and not coordinator.kill_points

    await wait_across_restarts(coordinator, is_updated_at_end)
    assert len(tracker.comments[item]) == 1
    assert "needs-triage" in tracker.items[item]["labels"]


async def remove_old_job(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Wait until a finished job is removed after its retention time."""
    job_id = await admin.submit("old")
    await admin.act(job_id, "cancel")
    await coordinator.restart(clock_ahead_s=LAPSE_S)

    async def is_removed() -> bool:
        return (
            await admin.ask("GET", f"/jobs/{job_id}")
        ).status == 404 and not coordinator.kill_points

    await wait_across_restarts(coordinator, is_removed)


async def wait_across_restarts(
    coordinator: RestartingCoordinator, done: Callable[[], Awaitable[bool]]
) -> None:
    """Wait for a condition across restarts.

    A killed process may block others until its claims expire; the clock skips that time.
    """
    for _ in range(TRIES_MAX):
        with suppress(TimeoutError):
            await until(done, within_s=LOOKS_S)
            return
        await coordinator.restart(clock_ahead_s=LAPSE_S)
    raise AssertionError("it was not done")
