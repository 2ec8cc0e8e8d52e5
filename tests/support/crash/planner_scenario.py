"""A crash scenario: a planner plans a goal."""

import hashlib

from tests.support.crash.restarting_coordinator import RestartingCoordinator
from tests.support.crash.retrying_client import RetryingClient, enroll_factory
from tests.support.crash.scenarios import Scenario
from tests.support.polling import until


async def plan_goal(coordinator: RestartingCoordinator, admin: RetryingClient) -> None:
    """Plan a goal, ship its first phase, extend the plan and cancel it."""
    factory = await enroll_factory(admin, "mac-1")
    goal = await admin.submit("goal", kind="composite", profile="planner", title="goal")
    grant = await factory.granted()
    (await factory.report(grant, stage="building")).require()
    plan = b"- {name: one, phase: 1, ship: none, body: x}\n- {name: two, phase: 2, body: x}\n"
    where = f"/jobs/{grant['job']['id']}/artifacts?name=.aq/plan.yaml&leaseEpoch=1&sha256="
    sent = where + hashlib.sha256(plan).hexdigest()
    (await factory.ask("POST", sent, content=plan)).require()
    (await factory.report(grant, stage="review", result="ok")).require()
    await admin.act(grant["job"]["id"], "approve")
    one = await factory.granted()
    assert one["job"]["name"] == "one"
    (await factory.report(one, stage="building")).require()
    (await factory.report(one, stage="review", result="ok")).require()
    await admin.act(one["job"]["id"], "approve")
    await admin.act(one["job"]["id"], "ship")

    async def is_waiting() -> bool:
        return "phase_waiting" in (await admin.job(goal))["flags"]

    await until(is_waiting)
    more = {"jobs": [{"manifest": {"name": "three", "phase": 3}, "body": "x"}]}
    (await admin.ask("POST", f"/jobs/{goal}/children", more)).require()
    await until(is_waiting)
    await admin.act(goal, "cancel")

    async def ended() -> bool:
        response = (await admin.ask("GET", f"/jobs/{goal}/events")).require()
        return any(event["type"] == "children_ended" for event in response["events"])

    await until(ended)


PLANNER = Scenario(
    plan_goal,
    {
        "goal": (
            *("submitted", "started", "planned", "phase_waiting", "planned", "phase_waiting"),
            *("cancelled", "children_ended"),
        ),
        "plan-goal": (
            *("submitted", "assigned", "started", "artifact_added", "verify_passed"),
            *("review_requested", "review_submitted", "approved", "ship_requested", "shipped"),
        ),
        "one": (
            *("submitted", "assigned", "started", "review_requested", "review_submitted"),
            *("approved", "ship_requested", "shipped"),
        ),
        "two": ("submitted", "blocked", "cancelled"),
        "three": ("submitted", "blocked", "cancelled"),
    },
    (
        *("submit:1", "advance:1", "add-artifact:1", "report:2", "approve:1", "advance:2"),
        *("add-children:1", "advance:3", "cancel:1", "cancel:2", "children-ended:1"),
    ),
)
