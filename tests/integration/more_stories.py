"""Two of the stories: a job makes way for another, and a ticket becomes one."""

import json
from contextlib import suppress

import httpx

from gigafactory.domain.delivery import signature
from tests.integration.callers import Caller, enrolled
from tests.integration.lives import Lives
from tests.integration.waiting import until
from tests.services.items_server import TOKEN, Items


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
        where = f"{lives.life.url}/api/fleet/tracker/webhook?product=notes"
        with suppress(httpx.HTTPError):
            answer = await admin.http.post(where, headers=shown, content=body)
            # Whoever hears nothing sends it again, and may hear that it was here before.
            return answer.status_code in {202, 409}
        return False

    await until(taken, within_s=60)

    async def heard() -> bool:
        await admin.job("say-hello")
        return not lives.dooms and tracker.stages(item) == ["fleet:queued"]

    await until(heard, within_s=60)
    await admin.act("say-hello", "cancel", reason="after all not")
    await until(lambda: len(tracker.comments[item]) == 1, within_s=60)
    assert "needs-triage" in tracker.items[item]["labels"]
