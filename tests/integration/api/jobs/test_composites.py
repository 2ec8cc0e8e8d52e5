"""Composites over HTTP: submission as a whole, phases, cancellation and reruns."""

import httpx
import pytest

from tests.support.api_server import Worker
from tests.support.jobs_api import (
    a_child,
    a_roadmap,
    act,
    dag,
    ship_next_job,
    stages,
    submit_job,
    wait_for_stage,
)
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_composite_and_its_children_are_submitted_together(
    admin: httpx.AsyncClient, product: str
) -> None:
    document = a_roadmap(
        a_child("schema", phase=1),
        a_child("api", phase=1, deps=["schema"]),
        a_child("page", phase=2, deps=["api"]),
    )
    job = await submit_job(admin, document)
    assert (job["kind"], job["stage"]) == ("composite", "queued")
    tree = await dag(admin)
    assert [(n["name"], n["stage"], n["phase"]) for n in tree["nodes"]] == [
        ("roadmap", "queued", None),
        ("schema", "queued", 1),
        ("api", "blocked", 1),
        ("page", "blocked", 2),
    ]
    assert {n["parentId"] for n in tree["nodes"][1:]} == {job["id"]} == {tree["root"]}
    sums = tree["rollup"]
    assert (sums["status"], sums["total"], sums["shipped"], sums["phase"]) == ("queued", 3, 0, 1)
    assert sums["stages"] == {"blocked": 2, "queued": 1}
    assert (sums["costUsd"], sums["revision"]) == ("0", 1)
    kept = (await admin.get("/jobs/roadmap?include=manifest")).json()["manifest"]
    assert "children" not in kept


async def test_all_faults_of_a_plan_are_reported_and_nothing_is_stored(
    admin: httpx.AsyncClient, product: str
) -> None:
    document = a_roadmap(
        a_child("one", profile="nobody"),
        a_child("two", product="another-product"),
        a_child("three", schedule="0 3 * * *"),
        a_child("four", parent="one"),
    )
    answer = await admin.post("/jobs", json=document)
    assert answer.status_code == 422
    places = {fault["field"] for fault in answer.json()["faults"]}
    assert places == {"children[1].product", "children[2].schedule", "children[3].parent"}
    answer = await admin.post(
        "/jobs", json=a_roadmap(a_child("a", profile="nobody"), a_child("b", profile="no-one"))
    )
    assert [f["field"] for f in answer.json()["faults"]] == [
        "children[0].profile",
        "children[1].profile",
    ]
    answer = await admin.post("/jobs", json=a_roadmap(a_child("a", deps=["b"]), a_child("c")))
    assert [f["field"] for f in answer.json()["faults"]] == ["children[0].deps"]
    orphan = {"manifest": {"name": "orphan", "parent": "nowhere"}, "body": "x"}
    assert (await admin.post("/jobs", json=orphan)).status_code == 422
    assert (await admin.get("/jobs")).json()["jobs"] == []


@pytest.mark.parametrize(
    "children",
    [
        [a_child("a", deps=["b"]), a_child("b", deps=["a"])],
        [a_child("a", deps=["roadmap"])],
        [a_child("a", phase=1, deps=["b"]), a_child("b", phase=2)],
    ],
    ids=["among children", "with their composite", "between phases"],
)
async def test_plan_with_a_dependency_cycle_is_rejected(
    admin: httpx.AsyncClient, children: list[dict[str, object]]
) -> None:
    answer = await admin.post("/jobs", json=a_roadmap(*children))
    assert (answer.status_code, answer.json()["code"]) == (409, "cycle")
    assert " → " in answer.json()["detail"]
    assert (await admin.get("/jobs")).json()["jobs"] == []


async def test_dependent_job_is_unflagged_when_its_failed_dependency_is_requeued(
    admin: httpx.AsyncClient, product: str
) -> None:
    await submit_job(admin, a_roadmap(a_child("one", phase=2), a_child("two", phase=1)))
    await submit_job(admin, {"manifest": {"name": "waits", "deps": ["one"]}, "body": "x"})

    async def flags() -> list[str]:
        result: list[str] = (await admin.get("/jobs/waits")).json()["flags"]
        return [flag for flag in result if flag == "dep_failed"]

    async def flagged() -> bool:
        return bool(await flags())

    async def unflagged() -> bool:
        return not await flags()

    assert (await act(admin, "one", "cancel")).status_code == 200
    await until(flagged)
    assert (await act(admin, "one", "requeue")).status_code == 200
    await until(unflagged)


async def test_more_than_ten_thousand_children_are_rejected(admin: httpx.AsyncClient) -> None:
    children = [{"name": f"c-{n}", "body": "x"} for n in range(10_001)]
    answer = await admin.post("/jobs", json=a_roadmap(*children))
    assert answer.status_code == 422
    assert "10000" in answer.json()["faults"][0]["message"]
    jobs = [{"manifest": {"name": f"c-{n}"}, "body": "x"} for n in range(10_001)]
    await submit_job(admin, a_roadmap(a_child("first")))
    answer = await admin.post("/jobs/roadmap/children", json={"jobs": jobs})
    assert answer.status_code == 422
    assert len((await dag(admin))["nodes"]) == 2


async def test_dag_of_a_thousand_nodes_is_one_response(admin: httpx.AsyncClient) -> None:
    inner = {"kind": "composite", "children": [a_child(f"leaf-{n}") for n in range(499)]}
    children = [a_child(f"child-{n}") for n in range(499)]
    await submit_job(admin, a_roadmap(*children, {**a_child("inner"), **inner}))
    tree = await dag(admin)
    assert (len(tree["nodes"]), tree["rollup"]["total"], tree["cut"]) == (1000, 998, False)


async def test_roadmap_waits_for_approval_between_phases(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    await submit_job(admin, a_roadmap(a_child("schema", phase=1), a_child("page", phase=2)))
    refused = await act(admin, "roadmap", "approve")
    assert refused.status_code == 409
    assert await ship_next_job(admin, worker) == "schema"

    async def asked() -> bool:
        return bool((await dag(admin))["rollup"]["askedPhase"] == 2)

    await until(asked)
    assert await stages(admin) == {"roadmap": "building", "schema": "shipped", "page": "blocked"}
    (matter,) = (await admin.get("/attention")).json()["attention"]
    assert (matter["kind"], matter["actions"]) == ("phase", ["approve", "cancel"])
    assert (await act(admin, "roadmap", "approve", reason="go on")).status_code == 200
    assert await ship_next_job(admin, worker) == "page"
    await wait_for_stage(admin, "roadmap", "shipped")
    events = (await admin.get("/jobs/roadmap/events")).json()["events"]
    assert [event["type"] for event in events] == [
        *("submitted", "started", "phase_waiting", "phase_opened"),
        *("children_shipped", "ship_requested", "shipped"),
    ]
    sums = (await dag(admin))["rollup"]
    assert (sums["status"], sums["shipped"], sums["total"]) == ("shipped", 2, 2)
    assert (await admin.get("/attention")).json()["attention"] == []


async def test_composite_starts_with_its_first_nested_job(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    inner = {"name": "inner", "kind": "composite", "children": [a_child("leaf")]}
    await submit_job(admin, a_roadmap(inner, a_child("later", deps=["inner"])))
    grant = await worker.granted()
    assert grant["job"]["name"] == "leaf"
    await wait_for_stage(admin, "inner", "building")
    await wait_for_stage(admin, "roadmap", "building")


async def test_phases_follow_automatically_if_no_review_is_required(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    document = a_roadmap(a_child("a", phase=1), a_child("b", phase=2), reviewPolicy="auto")
    await submit_job(admin, document)
    assert [await ship_next_job(admin, worker), await ship_next_job(admin, worker)] == ["a", "b"]
    await wait_for_stage(admin, "roadmap", "shipped")


async def test_acceptance_runs_under_a_lease_and_its_failure_waits_for_a_person(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("only"), verify="make acceptance"))
    await ship_next_job(admin, worker)
    for passed in (False, True):
        grant = await worker.granted()
        assert (grant["job"]["name"], grant["step"]) == ("roadmap", "ship")
        assert (await act(admin, "roadmap", "cancel")).status_code == 409
        bare = await worker.report(grant, stage="shipped", result="ok")
        assert bare.status_code == 422
        result = {"stage": "shipped", "result": "ok", "verify": {"passed": True}}
        if not passed:
            result = {"stage": "failed", "result": "verify_failed", "reason": "two pages are red"}
        assert (await worker.report(grant, **result)).status_code == 200
        if not passed:
            job = (await admin.get("/jobs/roadmap")).json()
            assert (job["stage"], job["reason"]) == ("testing", "two pages are red")
            assert (await act(admin, "roadmap", "ship")).status_code == 200
    await wait_for_stage(admin, "roadmap", "shipped")


async def test_cancelled_composite_revokes_all_grants_below_it(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    inner = {**a_child("inner"), "kind": "composite", "children": [a_child("deep")]}
    await submit_job(admin, a_roadmap(a_child("one"), a_child("two", deps=["one"]), inner))
    grant = await worker.granted()
    assert (await act(admin, "roadmap", "cancel", reason="no need")).status_code == 200
    assert (await worker.claim()).status_code == 204
    late = await worker.report(grant, stage="building")

    async def all_ended() -> bool:
        return set((await stages(admin)).values()) == {"cancelled"}

    await until(all_ended)
    assert late.status_code in {200, 409}
    child = (await admin.get("/jobs/deep")).json()
    assert child["result"] == "cancelled"
    assert (await act(admin, "deep", "requeue")).status_code == 409
    assert (await act(admin, "roadmap", "requeue")).status_code == 200
    await wait_for_stage(admin, "deep", "queued")
    assert (await stages(admin))["two"] == "blocked"


async def test_resubmitted_roadmap_skips_unchanged_shipped_children(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    plan = [a_child("one"), a_child("two", deps=["one"])]
    await submit_job(admin, a_roadmap(*plan))
    first = await ship_next_job(admin, worker)
    await wait_for_stage(admin, "two", "queued")
    await act(admin, "roadmap", "cancel")
    await wait_for_stage(admin, "two", "cancelled")
    again = await submit_job(admin, a_roadmap(*plan))
    tree = await dag(admin, again["id"])
    assert first == "one"
    assert [(n["name"], n["stage"]) for n in tree["nodes"][1:]] == [
        ("one", "shipped"),
        ("two", "queued"),
    ]
    assert await ship_next_job(admin, worker) == "two"
    await wait_for_stage(admin, again["id"], "shipped")


async def test_new_plan_is_a_revision_that_keeps_running_children(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("one"), a_child("two", deps=["one"])))
    await worker.granted()
    plan = [
        {"manifest": {"name": "one"}, "body": "Other words for what is in flight."},
        {"manifest": {"name": "two", "deps": ["one"]}, "body": "Other words."},
        {"manifest": {"name": "three", "deps": ["two"]}, "body": "More."},
    ]
    before = {n["name"]: n["id"] for n in (await dag(admin))["nodes"]}
    answer = await admin.post("/jobs/roadmap/children", json={"jobs": plan})
    assert answer.status_code == 201, answer.text
    one, two, three = answer.json()["jobs"]
    assert (one["id"], one["stage"]) == (before["one"], "assigned")
    assert (two["id"] != before["two"], two["stage"], three["stage"]) == (
        True,
        "blocked",
        "blocked",
    )
    tree = await dag(admin)
    assert (tree["rollup"]["revision"], tree["rollup"]["total"]) == (2, 3)
    replaced = next(n for n in tree["nodes"] if n["id"] == before["two"])
    assert (replaced["stage"], replaced["supersededBy"]) == ("cancelled", two["id"])
    same = await admin.post("/jobs/roadmap/children", json={"jobs": plan})
    assert (same.status_code, [j["id"] for j in same.json()["jobs"]]) == (
        200,
        [one["id"], two["id"], three["id"]],
    )


async def test_children_are_added_only_to_an_open_composite_of_their_product(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("one")))
    more = {"jobs": [{"manifest": {"name": "x", "product": "another"}, "body": "x"}]}
    assert (await admin.post("/jobs/roadmap/children", json=more)).status_code == 422
    more = {"jobs": [{"manifest": {"name": "x", "deps": ["roadmap"]}, "body": "x"}]}
    answer = await admin.post("/jobs/roadmap/children", json=more)
    assert (answer.status_code, answer.json()["code"]) == (409, "cycle")
    more = {"jobs": [{"manifest": {"name": "x"}, "body": "x"}]}
    assert (await admin.post("/jobs/one/children", json=more)).status_code == 422
    assert (await admin.post("/jobs/nowhere/children", json=more)).status_code == 404
    await ship_next_job(admin, worker)
    await wait_for_stage(admin, "roadmap", "shipped")
    answer = await admin.post("/jobs/roadmap/children", json=more)
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")


async def test_resubmission_under_one_key_replaces_the_composite_only_if_changed(
    admin: httpx.AsyncClient,
) -> None:
    first = await submit_job(admin, a_roadmap(a_child("one"), idempotencyKey="k"))
    same = await admin.post("/jobs", json=a_roadmap(a_child("one"), idempotencyKey="k"))
    assert (same.status_code, same.json()["id"]) == (200, first["id"])
    newer = await submit_job(admin, a_roadmap(a_child("one"), a_child("two"), idempotencyKey="k"))
    assert await stages(admin, newer["id"]) == {
        "roadmap": "queued",
        "one": "queued",
        "two": "queued",
    }
    assert set((await stages(admin, first["id"])).values()) == {"cancelled"}
