"""Plans over HTTP: a plan is accepted or refused as a whole, with the reason."""

import hashlib
from typing import Any

import httpx
import pytest

from tests.support.api_server import Worker
from tests.support.jobs_api import act, dag, ship_next_job, stages, submit_job, wait_for_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWO = """\
- name: schema
  phase: 1
  body: Do it.
- name: page
  phase: 2
  deps: [schema]
  body: Show it.
"""


def a_goal(**manifest: object) -> dict[str, object]:
    said = {"name": "roadmap", "kind": "composite", "profile": "planner", **manifest}
    return {"manifest": said, "body": "# The goal\n"}


async def hands_in(worker: Worker, grant: dict[str, Any], plan: bytes | str) -> None:
    data = plan.encode() if isinstance(plan, str) else plan
    digest = hashlib.sha256(data).hexdigest()
    where = f"/jobs/{grant['job']['id']}/artifacts?name=.aq/plan.yaml&sha256={digest}"
    where += f"&leaseEpoch={grant['leaseEpoch']}"
    answer = await worker.http.post(where, content=data)
    assert answer.status_code == 201, answer.text


async def plans(worker: Worker, plan: bytes | str | None, **said: object) -> dict[str, Any]:
    """Run the planner's job, upload this plan and return the response to the final report."""
    grant = await worker.granted()
    (await worker.report(grant, stage="building")).raise_for_status()
    if plan is not None:
        await hands_in(worker, grant, plan)
    answer = await worker.report(grant, **({"stage": "review", "result": "ok"} | said))
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


async def test_goal_gets_a_planner_whose_plan_a_person_approves(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal(title="The goal"))
    assert await stages(admin) == {"roadmap": "queued", "plan-the-goal": "queued"}
    assert (await dag(admin))["rollup"]["revision"] == 0
    planner = await plans(worker, TWO)
    assert (planner["stage"], planner["profile"]) == ("review", "planner@1")
    (matter,) = (await admin.get("/attention")).json()["attention"]
    assert (matter["kind"], matter["reason"]) == ("review", "its plan waits for approval")
    assert (await act(admin, planner["id"], "approve")).status_code == 200
    tree = await dag(admin)
    assert {n["name"]: n["stage"] for n in tree["nodes"]} | {"roadmap": ""} == {
        "roadmap": "",
        "plan-the-goal": "shipped",
        "schema": "queued",
        "page": "blocked",
    }
    assert (tree["rollup"]["revision"], tree["rollup"]["phase"]) == (1, 1)
    assert [node["planner"] for node in tree["nodes"]] == [False, True, False, False]
    (child,) = [n for n in tree["nodes"] if n["name"] == "schema"]
    assert (await admin.get(f"/jobs/{child['id']}")).json()["submittedBy"] == "user:admin"
    events = (await admin.get("/jobs/plan-the-goal/events")).json()["events"]
    (verified,) = [e["data"] for e in events if e["type"] == "verify_passed"]
    assert verified == {"passed": True, "plan": ".aq/plan.yaml", "jobs": 2}


FAULTY = {
    "no file": (None, "uploaded no .aq/plan.yaml"),
    "not a list": ("name: one\n", "plan: found a mapping; expected a list of manifests"),
    "nothing": ("", "plan: found nothing; expected a list of manifests"),
    "an empty list": ("[]\n", "found no job; expected a list of at least one"),
    "not YAML": ("- name: [\n", "line 2: it is not readable as YAML"),
    "not text": (b"- name: \xff\n", "line 1: found the byte 0xff; expected a file in UTF-8"),
    "a NUL": ("- name: a\n\0", "found a NUL byte"),
    "an alias": ("- &a {name: a}\n- *a\n", "expected no YAML aliases"),
    "not a job": ("- one\n", "plan[0]: found 'one'; expected a manifest with a body"),
    "an unknown field": ("- {name: a, colour: red}\n", "plan[0].colour: found the unknown key"),
    "a bad value": ("- {name: a, phase: soon}\n", "plan[0].phase: found 'soon'; expected"),
    "a missing dep": ("- {name: a, deps: [b]}\n", "plan[0].deps: there is no job 'b'"),
    "a circle": ("- {name: a, deps: [b]}\n- {name: b, deps: [a]}\n", "a → b → a"),
    "a circle of phases": (
        "- {name: a, phase: 1, deps: [b]}\n- {name: b, phase: 2}\n",
        " → ",
    ),
    "waits for the whole": ("- {name: a, deps: [roadmap]}\n", " → "),
    "one name twice": ("- {name: a}\n- {name: a}\n", "two jobs with the name 'a'"),
    "another product": ("- {name: a, product: shop}\n", "plan[0].product: found 'shop'"),
    "another parent": ("- {name: a, parent: other}\n", "plan[0].parent: found 'other'"),
    "a schedule": ("- {name: a, schedule: '0 3 * * *'}\n", "plan[0].schedule: found a schedule"),
    "an unknown profile": ("- {name: a, profile: nobody}\n", "plan[0].profile: "),
    "the planner itself": ("- {name: plan-roadmap}\n", "which is the planner itself"),
    "a name in use": ("- {name: roadmap}\n", "the name 'roadmap' is taken"),
    "too many": ("- {name: c}\n" * 10_001, "found a list of 10001; expected at most 10000"),
    "too large": ("# " + "x" * (4 << 20) + "\n- {name: a}\n", "bytes; expected at most 4194304"),
}


@pytest.mark.parametrize("case", FAULTY)
async def test_invalid_plan_fails_its_planner_with_the_reason(
    admin: httpx.AsyncClient, product: str, worker: Worker, case: str
) -> None:
    plan, why = FAULTY[case]
    await submit_job(admin, a_goal(title="roadmap"))
    planner = await plans(worker, plan)
    assert (planner["stage"], planner["result"]) == ("failed", "verify_failed")
    assert why in planner["reason"]
    assert set(await stages(admin)) == {"roadmap", "plan-roadmap"}
    (matter,) = (await admin.get("/attention")).json()["attention"]
    assert (matter["kind"], matter["reason"]) == ("failed", planner["reason"])


async def test_plan_of_an_earlier_run_does_not_count(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal(retry={"max": 1, "backoff": "0s"}))
    again = await plans(worker, "- {name: a, deps: [b]}\n")
    assert again["stage"] == "queued"
    grant = await worker.granted()
    assert "there is no job 'b'" in grant["followUps"][0]
    (await worker.report(grant, stage="building")).raise_for_status()
    result = (await worker.report(grant, stage="review", result="ok")).json()
    assert (result["stage"], result["result"]) == ("dead_letter", "retries_exhausted")
    assert "uploaded no" in result["reason"]


async def test_approval_of_an_outdated_plan_is_rejected(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal())
    planner = await plans(worker, "- {name: taken}\n")
    await submit_job(admin, {"manifest": {"name": "taken"}, "body": "x"})
    answer = await act(admin, planner["id"], "approve")
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    assert (await admin.get(f"/jobs/{planner['id']}")).json()["stage"] == "review"
    assert (await act(admin, "taken", "cancel")).status_code == 200
    assert (await act(admin, planner["id"], "approve")).status_code == 200
    assert "taken" in await stages(admin)


async def test_a_plan_needs_no_approval_if_the_policy_requires_none(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal(reviewPolicy="auto"))
    planner = await plans(worker, TWO, stage="testing")
    assert planner["stage"] == "shipped"
    assert {"schema", "page"} <= set(await stages(admin))


async def test_planned_auto_ship_requires_an_auto_ship_goal(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    plan = "- {name: one, body: x, ship-policy: auto, verify: 'true'}\n"
    await submit_job(admin, a_goal(reviewPolicy="auto"))
    planner = await plans(worker, plan, stage="testing")
    assert planner["stage"] == "failed"
    assert "plan[0].ship-policy: is auto" in planner["reason"]
    await submit_job(admin, a_goal(name="bold", reviewPolicy="auto", shipPolicy="auto"))
    assert (await plans(worker, plan, stage="testing"))["stage"] == "shipped"


async def test_planner_reported_in_a_batch_is_validated_too(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal())
    grant = await worker.granted()
    job_id, epoch = grant["job"]["id"], grant["leaseEpoch"]
    said = [{"stage": "building"}, {"stage": "review", "result": "ok"}]
    reports = [{"jobId": job_id, "leaseEpoch": epoch, **result} for result in said]
    answer = await worker.http.post("/reports", json={"reports": reports})
    assert answer.status_code == 200, answer.text
    assert (await admin.get(f"/jobs/{job_id}")).json()["stage"] == "failed"


async def test_second_planning_is_a_revision_that_keeps_shipped_children(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal(reviewPolicy="auto"))
    await plans(worker, TWO, stage="testing")
    assert await ship_next_job(admin, worker) == "schema"
    before = {node["name"]: node["id"] for node in (await dag(admin))["nodes"]}
    again = {"jobs": [{"manifest": {"name": "again", "profile": "planner"}, "body": "Again."}]}
    assert (await admin.post("/jobs/roadmap/children", json=again)).status_code == 201
    assert (await dag(admin))["rollup"]["revision"] == 1
    newer = TWO.replace("Show it.", "Show it well.") + "- {name: guide, body: Write.}\n"
    grant = await worker.granted()
    while grant["job"]["name"] != "again":
        grant = await worker.granted()
    (await worker.report(grant, stage="building")).raise_for_status()
    await hands_in(worker, grant, newer)
    (await worker.report(grant, stage="review", result="ok")).raise_for_status()
    tree = await dag(admin)
    assert tree["rollup"]["revision"] == 1
    assert (await act(admin, "again", "approve")).status_code == 200
    tree = await dag(admin)
    assert tree["rollup"]["revision"] == 2
    named = {(node["name"], node["id"]) for node in tree["nodes"]}
    assert ("schema", before["schema"]) in named
    assert "guide" in {name for name, _ in named}


async def test_resubmitted_goal_is_planned_again_and_keeps_shipped_children(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    one = "- {name: one, body: x, ship: none}\n"
    await submit_job(admin, a_goal(reviewPolicy="auto"))
    await plans(worker, one, stage="testing")
    assert await ship_next_job(admin, worker) == "one"
    await wait_for_stage(admin, "roadmap", "shipped")
    first = {node["name"]: node["id"] for node in (await dag(admin))["nodes"]}
    await submit_job(admin, a_goal(reviewPolicy="auto"))
    await plans(worker, one + "- {name: two, body: x, ship: none}\n", stage="testing")
    second = {node["name"]: node["id"] for node in (await dag(admin))["nodes"]}
    assert second["roadmap"] != first["roadmap"]
    assert second["one"] == first["one"]
    assert (await stages(admin))["two"] == "queued"


async def test_planner_is_added_only_to_a_composite_without_children(
    admin: httpx.AsyncClient, product: str, worker: Worker
) -> None:
    await submit_job(admin, a_goal(children=[{"name": "given"}]))
    assert set(await stages(admin)) == {"roadmap", "given"}
    await submit_job(admin, {"manifest": {"name": "alone", "profile": "planner"}, "body": "x"})
    kept = (await admin.get("/jobs/alone?include=manifest")).json()["manifest"]
    assert "artifacts" not in kept
