"""More of the stories: a job makes way, a ticket becomes one, and what is old is let go."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx

from gigafactory.domain.tracker.webhook_delivery import signature
from tests.services.items_server import TOKEN, Items
from tests.support.crash.restarting_coordinator import Lives
from tests.support.crash.retrying_client import Caller, enrolled
from tests.support.polling import until

LAPSE_S = 50 * 3600.0
"""Longer than a finished job is kept here, and than anything that was begun is waited for."""
LOOKS_S = 6.0
TRIES_MAX = 8


async def making_way(lives: Lives, admin: Caller) -> None:
    """A critical job finds the only seat taken, and gets it."""
    factory = await enrolled(admin, "mac-1")
    factory.slots = 1
    await factory.beat()
    low = await admin.submit("low", priority="low")
    grant = await factory.granted()
    await admin.submit("urgent", priority="critical")

    async def asked() -> bool:
        return bool((await factory.beat(low))["commands"] == [{"type": "preempt", "jobId": low}])

    await until(asked)
    where = f"/jobs/{low}/lease/release"
    (await factory.ask("POST", where, {"leaseEpoch": grant["leaseEpoch"]})).require()
    grant = await factory.granted()
    assert grant["job"]["name"] == "urgent"
    await factory.build(grant)


async def ticketing(lives: Lives, admin: Caller, tracker: Items) -> None:
    """A ticket is delivered, becomes a job, and hears of it, each thing once."""
    item = tracker.file("Say hello")
    body = json.dumps({"item": tracker.items[item]}).encode()
    shown = {"x-hub-signature-256": signature(TOKEN.encode(), body), "x-github-delivery": "1"}

    async def taken() -> bool:
        life = lives.life
        where = f"{life.url}/api/fleet/tracker/webhook?product=notes"
        try:
            answer = await admin.http.post(where, headers=shown, content=body)
        except httpx.HTTPError:
            # A client without a response sends it again, and may get the stored response.
            await lives.after(life)
            return False
        return answer.status_code in {202, 409}

    await until(taken, within_s=60)

    async def echoed() -> int:
        told = (await admin.ask("GET", "/jobs/say-hello/events")).require()
        return [event["type"] for event in told["events"]].count("tracker_echoed")

    async def heard() -> bool:
        return await echoed() == 1

    await outlived(lives, heard)
    assert tracker.stages(item) == ["fleet:queued"]
    await admin.act("say-hello", "cancel", reason="after all not")

    async def heard_the_end() -> bool:
        return await echoed() == 2 and not lives.dooms

    await outlived(lives, heard_the_end)
    assert len(tracker.comments[item]) == 1
    assert "needs-triage" in tracker.items[item]["labels"]


async def letting_go(lives: Lives, admin: Caller) -> None:
    """A job has been finished for longer than jobs are kept."""
    job_id = await admin.submit("old")
    await admin.act(job_id, "cancel")
    await lives.murder(and_wait_s=LAPSE_S)

    async def gone() -> bool:
        return (await admin.ask("GET", f"/jobs/{job_id}")).status == 404 and not lives.dooms

    await outlived(lives, gone)


async def outlived(lives: Lives, done: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is done, over all deaths.

    What was begun by one who died stands in the way of others for a while: that passes at once.
    """
    for _ in range(TRIES_MAX):
        with suppress(TimeoutError):
            await until(done, within_s=LOOKS_S)
            return
        await lives.murder(and_wait_s=LAPSE_S)
    raise AssertionError("it was not done")
