"""A crash scenario: a routing rollout raises costs and is reverted."""

from gigafactory.domain.insights.routing_rollout import AB_SHARE, hash_fraction
from tests.support.crash.restarting_coordinator import RestartingCoordinator
from tests.support.crash.retrying_client import RetryingClient, enroll_factory
from tests.support.crash.scenarios import Scenario
from tests.support.polling import until

JOBS = 100
"""Enough jobs for both sides of the rollout, regardless of the job ids."""


async def revert_routing(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Raise the costs of learned routing and expect one automatic revert."""
    settings = {"mode": "ab", "explore": 0}
    (await admin.ask("PUT", "/routing/notes", settings)).require()
    factory = await enroll_factory(admin, "mac-1")
    factory.slots = JOBS
    await factory.beat()
    jobs = [{"manifest": {"name": f"job-{n}"}, "body": "Do."} for n in range(JOBS)]
    jobs_created = (await admin.ask("POST", "/jobs", {"jobs": jobs})).require()["jobs"]
    granted = 0
    while granted < JOBS:
        response = (await factory.ask("POST", "/claim", factory.identity | {"max": JOBS})).require()
        granted += len(response["grants"]) if response else 0
    reports = []
    for job in jobs_created:
        usd = 5 if hash_fraction(job["id"], "side") < AB_SHARE else 0.5
        usage = {"engine": "claude", "model": "m", "tokensIn": 9, "costUsd": usd}
        lease = {"jobId": job["id"], "leaseEpoch": 1}
        reports.append(lease | {"stage": "building", "usage": usage})
        reports.append(lease | {"stage": "review", "result": "ok"})
    (await factory.ask("POST", "/reports", {"reports": reports})).require()

    async def is_reverted() -> bool:
        response = (await admin.ask("GET", "/routing")).require()
        return (
            not coordinator.kill_points
            and response["tries"] == JOBS
            and bool(response["rollouts"][0]["tripped"])
        )

    await until(is_reverted, within_s=60)
    (rollout,) = (await admin.ask("GET", "/routing")).require()["rollouts"]
    assert (rollout["mode"], rollout["tripped"]["guardrail"]) == ("shadow", "cost")
    log = (await admin.ask("GET", "/audit")).require()["events"]
    assert [event["type"] for event in log].count("routing_tripped") == 1
    attention = (await admin.ask("GET", "/attention")).require()["attention"]
    assert [each["subject"] for each in attention if each["kind"] == "routing_tripped"] == ["notes"]


ROUTING = Scenario(
    revert_routing,
    {
        f"job-{n}": ("submitted", "assigned", "usage", "started", "review_requested")
        for n in range(JOBS)
    },
    ("routing:1", "tally:1"),
)
