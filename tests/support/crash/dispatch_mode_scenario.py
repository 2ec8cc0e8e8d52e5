"""The story of a product whose way of dispatch is set, on which a coordinator may die."""

from tests.support.crash.restarting_coordinator import Lives
from tests.support.crash.retrying_client import Caller, enrolled
from tests.support.crash.scenarios import Story


async def turned(_lives: Lives, admin: Caller) -> None:
    """Jobs are asked for while a product is in shadow, and the dispatcher is made to take over."""
    factory = await enrolled(admin, "mac-1")
    (await admin.ask("PUT", "/shadow/notes", {"mode": "shadow"})).require()
    assert (await factory.beat())["commands"] == [{"type": "ask"}]
    await admin.submit("asked-for")
    await factory.build(await factory.granted())
    refused = await admin.ask("PUT", "/shadow/notes", {"mode": "push"})
    assert refused.status == 409
    (await admin.ask("PUT", "/shadow/notes", {"mode": "push", "force": True})).require()
    assert (await factory.beat())["commands"] == []
    (shown,) = (await admin.ask("GET", "/shadow")).require()["products"]
    assert shown["mode"] == "push"
    log = (await admin.ask("GET", "/audit")).require()["events"]
    told = [event["data"] for event in log if event["type"] == "dispatch_changed"]
    assert [(each["from"], each["way"]) for each in told] == [
        ("shadow", "push"),
        ("push", "shadow"),
    ]


TURNED = Story(
    turned,
    {"asked-for": ("submitted", "assigned", "started", "checkpoint", "review_requested")},
    ("dispatch:1", "dispatch:2"),
)
