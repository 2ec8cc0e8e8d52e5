"""Small scenarios that together cover every kind of commit of a coordinator."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.services.items_server import TOKEN
from tests.support.api_server import StreamMessage
from tests.support.crash.preemption_tickets_retention import (
    deliver_ticket,
    preempt_job,
    remove_old_job,
)
from tests.support.crash.restarting_coordinator import RestartingCoordinator
from tests.support.crash.retrying_client import RetryingClient, enroll_factory
from tests.support.polling import until

DAY_AND_MORE_S = 25 * 3600.0
"""Longer than a stored response is kept, and than the interval of a daily schedule."""
OFFER_EXPIRED_S = 40.0
"""Longer than an offer lasts, and than a declining factory is skipped."""

Events = Mapping[str, Sequence[str]]
Actions = Callable[..., Awaitable[None]]
"""A function of the coordinator and an admin client, and of the tracker if it needs tickets."""


@dataclass(frozen=True)
class Scenario:
    """The actions of clients, the expected events of each job, and the kill points."""

    run: Actions
    expected_events: Events
    """The exact events of each job by name, regardless of the number of restarts."""
    kill_points: Sequence[str]
    """Verbs of commits, each with the number of the commit among those of the verb."""
    settings: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    """Settings that only a file can hold; `{tracker}` is replaced by the tracker's address."""
    is_concurrent: bool = False
    """Whether its commits are concurrent, so that a kill at one hides the others."""


async def ship_job(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Submit, run, review and ship a job, and another that depends on it."""
    factory = await enroll_factory(admin, "mac-1")
    first = await admin.submit("first", repo="notes", reviewPolicy="manual")
    second = await admin.submit("second", deps=["first"])
    grant = await factory.granted()
    (await factory.report(grant, stage="building")).require()
    where = f"/jobs/{first}/logs?leaseEpoch=1&offset=0"
    (await factory.ask("POST", where, content=b"working\n")).require()
    checkpoint = {"branch": f"aq/wip/{first}/1", "commit": "c1"}
    usage = {"engine": "claude", "model": "m", "tokensIn": 9, "costUsd": 0.5}
    (await factory.report(grant, checkpoint=checkpoint, usage=usage)).require()
    (await factory.ask("POST", f"/jobs/{first}/lease/renew", {"leaseEpoch": 1})).require()
    (await factory.report(grant, stage="review", result="ok")).require()
    await admin.act(first, "approve", commit="c1")
    await admin.act(first, "ship", commit="c1")
    delivery = await factory.granted()
    assert (delivery["job"]["id"], delivery["step"]) == (first, "ship")
    (await factory.report(delivery, stage="shipped")).require()
    assert (await factory.granted())["job"]["id"] == second
    defect = {"source": "revert", "reference": "c2"}
    (await factory.ask("POST", f"/jobs/{first}/defects", defect)).require()
    log = await admin.http.get(
        f"{coordinator.process.url}/api/fleet/jobs/{first}/logs?run={first}.1",
        headers=admin.headers(coordinator.process),
    )
    assert log.text == "working\n"


async def operate_fleet(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Change products, profiles, tokens, jobs and factories as an operator."""
    factory = await enroll_factory(admin, "mac-1")
    (await admin.ask("PUT", "/products/notes", {"share": 2.0})).require()
    (await admin.ask("POST", "/profiles", {"name": "careful", "persona": "Go slowly."})).require()
    token = (await admin.ask("POST", "/tokens", {"user": "ann", "role": "viewer"})).require()
    (await admin.ask("DELETE", f"/tokens/{token['id']}")).require()
    assert (await admin.ask("POST", "/logins")).require()["code"]
    invited = (await admin.ask("POST", "/enrollments", {"products": ["*"]})).require()
    (await admin.ask("DELETE", f"/enrollments/{invited['id']}")).require(404)

    job_id = await admin.submit("moved")
    await admin.act(job_id, "promote")
    grant = await factory.granted()
    (await admin.ask("POST", "/halt", {"stop": True, "reason": "look"})).require()
    where = f"/jobs/{job_id}/lease/release"
    (await factory.ask("POST", where, {"leaseEpoch": grant["leaseEpoch"]})).require()
    (await admin.ask("POST", "/resume", {})).require()
    await admin.act(job_id, "cancel")
    await admin.act(job_id, "requeue")
    await factory.granted()
    await admin.act(job_id, "release", reason="move it")
    assert (await factory.beat(job_id))["commands"] == [{"type": "cancel", "jobId": job_id}]
    assert (await factory.beat())["commands"] == []

    (await admin.ask("POST", "/factories/mac-1/drain", {})).require()
    (await admin.ask("POST", "/factories/mac-1/token/rotate")).require()
    (await admin.ask("POST", "/factories/mac-1/token/revoke")).require()
    (await admin.ask("DELETE", "/factories/mac-1")).require(404)
    assert (await admin.ask("GET", "/factories/mac-1")).status == 404
    assert (await factory.ask("POST", "/claim", factory.identity)).status == 401


async def offer_jobs(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Decline, accept and ignore offers on a stream."""
    factory = await enroll_factory(admin, "mac-1")
    messages = factory.messages()
    await anext(messages)
    declined = await admin.submit("declined")
    offer = await offer_of(messages, declined)
    (await factory.accept(offer, decline="disk is full")).require()
    accepted = await admin.submit("accepted")
    offer = await offer_of(messages, accepted)
    await factory.build((await factory.accept(offer)).require())
    ignored = await admin.submit("ignored")
    await offer_of(messages, ignored)
    await coordinator.restart(clock_ahead_s=OFFER_EXPIRED_S)
    await factory.beat()
    offer = await offer_of(messages, declined)
    await factory.build((await factory.accept(offer)).require())
    await until(lambda: _has_events(admin, ignored, 3))
    await admin.act(ignored, "cancel")
    await messages.aclose()


async def offer_of(messages: AsyncIterator[StreamMessage], job_id: str) -> dict[str, Any]:
    """Return the next offer of a job; skip repeated messages."""
    async for message in messages:
        if message.event == "offer" and message.data["jobId"] == job_id:
            offer: dict[str, Any] = message.data
            return offer
    raise AssertionError


async def _has_events(admin: RetryingClient, job_id: str, count: int) -> bool:
    response = (await admin.ask("GET", f"/jobs/{job_id}/events")).require()
    return len(response["events"]) >= count


async def expire_lease(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Let a lease expire, and send a late report after the job was granted again."""
    quiet, other = await enroll_factory(admin, "mac-1"), await enroll_factory(admin, "mac-2")
    job_id = await admin.submit("left-alone")
    grant = await quiet.granted()
    (await quiet.report(grant, stage="building")).require()
    await until(lambda: _is(admin, job_id, "queued"))
    usage = {"engine": "claude", "model": "m", "tokensIn": 9, "costUsd": 0.5}
    late = await quiet.report(grant, stage="review", usage=usage)
    assert (late.status, late.body["code"]) == (409, "fenced")
    await other.build(await other.granted())
    runs = (await admin.ask("GET", f"/jobs/{job_id}/runs")).require()["runs"]
    assert [run["result"] for run in runs] == ["lost", "ok"]
    assert runs[0]["usage"]["costUsd"] == "0.5"


async def _is(admin: RetryingClient, job_id: str, stage: str) -> bool:
    return bool((await admin.job(job_id))["stage"] == stage)


async def restart_after_a_day(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Restart after a day: the run continues, a schedule ticks, stored responses expire."""
    factory = await enroll_factory(admin, "mac-1")
    running_job = await admin.submit("kept")
    await admin.submit("daily", schedule="0 0 * * *")
    grant = await factory.granted()
    (await factory.report(grant, stage="building")).require()
    await coordinator.restart(clock_ahead_s=DAY_AND_MORE_S)
    await factory.beat(running_job)
    copy = await factory.granted()
    assert copy["job"]["name"].startswith("daily-")
    await factory.build(copy)
    (await factory.ask("POST", f"/jobs/{running_job}/lease/renew", {"leaseEpoch": 1})).require()
    (await factory.report(grant, stage="review", result="ok")).require()


async def upload_artifact(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Upload an artifact, link to it and delete it; upload another with a wrong hash."""
    job_id = await admin.submit("left")
    where, text = f"/jobs/{job_id}/artifacts?name=report.txt&sha256=", b"all is well"
    digest = hashlib.sha256(text).hexdigest()
    artifact = (await admin.ask("POST", where + digest, content=text)).require()
    rejected = await admin.ask("POST", where + "0" * 64, content=text)
    assert rejected.status == 422
    (await admin.ask("POST", f"/artifacts/{artifact['id']}/links", {"expiresIn": 60})).require()
    (await admin.ask("DELETE", f"/artifacts/{artifact['id']}")).require(404)
    assert (await admin.ask("GET", f"/jobs/{job_id}/artifacts")).require() == {"artifacts": []}


async def notify_people(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Notify people of a review over a dead channel."""
    factory = await enroll_factory(admin, "mac-1")
    job_id = await admin.submit("told", reviewPolicy="manual")
    await factory.build(await factory.granted())

    async def attempted() -> bool:
        assert (await admin.job(job_id))["stage"] == "review"
        return not coordinator.kill_points and '"notify"' in coordinator.history.read_text()

    await until(attempted, within_s=60)


async def book_costs(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Set a ceiling, and book and sum the costs of a run once."""
    (await admin.ask("PUT", "/budgets/notes", {"ceilingUsd": "10"})).require()
    factory = await enroll_factory(admin, "mac-1")
    await admin.submit("paid")
    grant = await factory.granted()
    (await factory.report(grant, stage="building")).require()
    usage = {"engine": "claude", "model": "m", "tokensIn": 9, "costUsd": 0.5}
    (await factory.report(grant, usage=usage)).require()
    (await factory.report(grant, stage="review", result="ok")).require()

    async def added_up() -> bool:
        response = (await admin.ask("GET", "/insights")).require()
        return bool(not coordinator.kill_points and response["total"]["costUsd"] == "0.5")

    await until(added_up, within_s=60)
    budget = (await admin.ask("GET", "/budgets/notes")).require()
    assert (budget["spentUsd"], budget["reservedUsd"]) == ("0.5", "0")


async def cancel_composite(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Add a child to a composite, start its first child, and cancel all."""
    factory = await enroll_factory(admin, "mac-1")
    children = [{"name": "page", "body": "Do."}, {"name": "guide", "body": "Do.", "phase": 2}]
    roadmap = await admin.submit("roadmap", kind="composite", children=children)
    more = {"jobs": [{"manifest": {"name": "extra", "phase": 3}, "body": "# Extra"}]}
    (await admin.ask("POST", f"/jobs/{roadmap}/children", more)).require()
    grant = await factory.granted()
    epoch = {"leaseEpoch": grant["leaseEpoch"]}
    (await factory.ask("POST", f"/jobs/{grant['job']['id']}/token", epoch)).require()
    await until(lambda: _is(admin, roadmap, "building"))
    await admin.act(roadmap, "cancel", reason="no longer wanted")

    async def all_cancelled() -> bool:
        return all([await _is(admin, name, "cancelled") for name in ("page", "guide", "extra")])

    await until(all_cancelled)
    where = f"/jobs/{grant['job']['id']}/lease/release"
    (await factory.ask("POST", where, {"leaseEpoch": grant["leaseEpoch"]})).require()
    await until(lambda: _has_events(admin, roadmap, 5))


BUILT = ("started", "checkpoint", "review_requested")

SCENARIOS = {
    "shipping": Scenario(
        ship_job,
        {
            "first": (
                *("submitted", "assigned", "started", "checkpoint", "usage", "review_requested"),
                *("review_submitted", "approved", "ship_requested", "assigned", "shipped"),
                "defect_reported",
            ),
            "second": ("submitted", "blocked", "unblocked", "assigned"),
        },
        (
            *("token_made:1", "reign:1", "beat:1", "invite:1", "enroll:1", "announce:1"),
            *("submit:1", "submit:2", "grant:1", "report:1", "report:2", "renew:1", "report:3"),
            *("approve:1", "ship:1", "grant:2", "report:4", "unblock:1", "grant:3", "resign:1"),
            "defect:1",
        ),
    ),
    "operating": Scenario(
        operate_fleet,
        {
            "moved": (
                *("submitted", "promoted", "assigned", "preempt_requested", "preempted"),
                *("cancelled", "requeued", "assigned", "released", "released"),
            )
        },
        (
            *(
                "product:1",
                "save-profile:1",
                "token_made:2",
                "token_revoked:1",
                "login-code:1",
                "withdraw:1",
            ),
            *("promote:1", "halt:1", "stop:1", "release:1", "halt:2", "cancel:1", "requeue:1"),
            *("release:2", "reconcile:1", "drain:1", "rotate:1", "revoke:1", "deregister:1"),
        ),
    ),
    "preemption": Scenario(
        preempt_job,
        {
            "low": ("submitted", "assigned", "preempt_requested", "preempted"),
            "urgent": ("submitted", "preempting", "assigned", *BUILT),
        },
        ("evict:1", "release:1", "grant:2"),
    ),
    "offering": Scenario(
        offer_jobs,
        {
            "declined": ("submitted", "offered", "offer_expired", "offered", "assigned", *BUILT),
            "accepted": ("submitted", "offered", "assigned", *BUILT),
            "ignored": ("submitted", "offered", "offer_expired", "cancelled"),
        },
        ("streaming:1", "offer:1", "decline:1", "grant:1", "withdraw:1"),
    ),
    "lease_expiry": Scenario(
        expire_lease,
        {
            "left-alone": (
                *("submitted", "assigned", "started", "lease_expired", "fenced", "assigned"),
                *BUILT,
            )
        },
        ("reap:1", "fenced:1", "late-usage:1"),
        settings={"AQ_LEASE_TTL": "3", "AQ_FLEET_LEASE_RENEW_SEC": "1"},
    ),
    "artifacts": Scenario(
        upload_artifact,
        {"left": ("submitted", "artifact_added", "artifact_deleted")},
        (
            *("begin-blob:1", "add-artifact:1", "begin-blob:2", "drop-blob:1", "dropped-blob:1"),
            *("link:1", "delete-artifact:1", "drop-blob:2", "dropped-blob:2"),
        ),
    ),
    "notification": Scenario(
        notify_people,
        {"told": ("submitted", "assigned", *BUILT)},
        ("notice:1", "notify:1"),
        settings={"TEST_CHANNEL": "json://127.0.0.1:1"},
        file="[notify]\nquiet = 0\nlocal = true\n"
        '[notify.channels]\nops = {url-env = "TEST_CHANNEL"}\n',
    ),
    "budget": Scenario(
        book_costs,
        {"paid": ("submitted", "assigned", "started", "usage", "review_requested")},
        ("budget:1", "budget_changed:1", "grant:1", "report:2", "report:3", "tally:1"),
    ),
    "composite": Scenario(
        cancel_composite,
        {
            "roadmap": (*("submitted", "planned", "started", "cancelled", "children_ended"),),
            "page": ("submitted", "assigned", "cancelled", "released"),
            "guide": ("submitted", "cancelled"),
            "extra": ("submitted", "blocked", "cancelled"),
        },
        (
            "submit:1",
            "add-children:1",
            "job-token:1",
            "advance:1",
            "cancel:1",
            "cancel:2",
            "children-ended:1",
        ),
    ),
    "archiving": Scenario(remove_old_job, {}, ("archive:1",), settings={"AQ_RETENTION_DAYS": "1"}),
    "deleting": Scenario(
        remove_old_job,
        {},
        ("delete:1",),
        settings={"AQ_RETENTION_DAYS": "1", "AQ_RETENTION_THEN": "delete"},
    ),
    "tickets": Scenario(
        deliver_ticket,
        {"say-hello": ("submitted", "tracker_echoed", "cancelled", "tracker_echoed")},
        ("delivery:1", "hear:1", "trail:1", "echo:1", "echo:2", "echo:3"),
        settings={"TRACKER_TOKEN": TOKEN},
        file=(
            "[tracker]\npoll-every = 3600\n[tracker.products.notes]\n"
            'url = "{tracker}"\ntoken-env = "TRACKER_TOKEN"\nsecret-env = "TRACKER_TOKEN"\n'
        ),
    ),
    "restart_after_a_day": Scenario(
        restart_after_a_day,
        {
            "kept": ("submitted", "assigned", "started", "review_requested"),
            "daily": ("submitted", "ticked"),
            "daily-copy": ("submitted", "assigned", *BUILT),
        },
        ("tick:1", "extend:1", "forget:1"),
        is_concurrent=True,
    ),
}
