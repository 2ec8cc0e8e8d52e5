"""The story of a rollout that does harm, on which a coordinator may die at any commit."""

from gigafactory.domain.insights.routing_rollout import AB_SHARE, hash_fraction
from tests.support.crash.restarting_coordinator import Lives
from tests.support.crash.retrying_client import Caller, enrolled
from tests.support.crash.scenarios import Story
from tests.support.polling import until

JOBS = 100
"""So many that both sides have enough of them, whatever their ids are."""


async def switched_back(lives: Lives, admin: Caller) -> None:
    """Learned routing makes jobs expensive: the product reverts automatically, once."""
    asked = {"mode": "ab", "explore": 0}
    (await admin.ask("PUT", "/routing/notes", asked)).require()
    factory = await enrolled(admin, "mac-1")
    factory.slots = JOBS
    await factory.beat()
    jobs = [{"manifest": {"name": f"job-{n}"}, "body": "Do."} for n in range(JOBS)]
    made = (await admin.ask("POST", "/jobs", {"jobs": jobs})).require()["jobs"]
    granted = 0
    while granted < JOBS:
        told = (await factory.ask("POST", "/claim", factory.mine | {"max": JOBS})).require()
        granted += len(told["grants"]) if told else 0
    reports = []
    for job in made:
        usd = 5 if hash_fraction(job["id"], "side") < AB_SHARE else 0.5
        usage = {"engine": "claude", "model": "m", "tokensIn": 9, "costUsd": usd}
        under = {"jobId": job["id"], "leaseEpoch": 1}
        reports.append(under | {"stage": "building", "usage": usage})
        reports.append(under | {"stage": "review", "result": "ok"})
    (await factory.ask("POST", "/reports", {"reports": reports})).require()

    async def gone_back() -> bool:
        told = (await admin.ask("GET", "/routing")).require()
        return not lives.dooms and told["tries"] == JOBS and bool(told["rollouts"][0]["tripped"])

    await until(gone_back, within_s=60)
    (rollout,) = (await admin.ask("GET", "/routing")).require()["rollouts"]
    assert (rollout["mode"], rollout["tripped"]["guardrail"]) == ("shadow", "cost")
    log = (await admin.ask("GET", "/audit")).require()["events"]
    assert [event["type"] for event in log].count("routing_tripped") == 1
    matters = (await admin.ask("GET", "/attention")).require()["attention"]
    assert [each["subject"] for each in matters if each["kind"] == "routing_tripped"] == ["notes"]


SWITCHED_BACK = Story(
    switched_back,
    {
        f"job-{n}": ("submitted", "assigned", "usage", "started", "review_requested")
        for n in range(JOBS)
    },
    ("routing:1", "tally:1"),
)
