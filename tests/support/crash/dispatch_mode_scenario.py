"""A crash scenario: the dispatch mode of a product changes."""

from tests.support.crash.restarting_coordinator import RestartingCoordinator
from tests.support.crash.retrying_client import RetryingClient, enroll_factory
from tests.support.crash.scenarios import Scenario


async def change_dispatch_mode(_coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Claim jobs of a product in shadow mode, then force it to push mode."""
    factory = await enroll_factory(admin, "mac-1")
    (await admin.ask("PUT", "/shadow/notes", {"mode": "shadow"})).require()
    assert (await factory.beat())["commands"] == [{"type": "ask"}]
    await admin.submit("asked-for")
    await factory.build(await factory.granted())
    refused = await admin.ask("PUT", "/shadow/notes", {"mode": "push"})
    assert refused.status == 409
    (await admin.ask("PUT", "/shadow/notes", {"mode": "push", "force": True})).require()
    assert (await factory.beat())["commands"] == []
    (product,) = (await admin.ask("GET", "/shadow")).require()["products"]
    assert product["mode"] == "push"
    log = (await admin.ask("GET", "/audit")).require()["events"]
    changes = [event["data"] for event in log if event["type"] == "dispatch_changed"]
    assert [(each["from"], each["way"]) for each in changes] == [
        ("shadow", "push"),
        ("push", "shadow"),
    ]


DISPATCH_MODE = Scenario(
    change_dispatch_mode,
    {"asked-for": ("submitted", "assigned", "started", "checkpoint", "review_requested")},
    ("dispatch:1", "dispatch:2"),
)
