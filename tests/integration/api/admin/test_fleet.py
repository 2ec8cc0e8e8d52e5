"""The whole fleet over HTTP: kill switch, versions, metrics, products, profiles, audit log."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker, a_server, a_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROFILE = """---
name: careful
capabilities: [python>=3.11]
stall: 20m
review-policy: {reviewers: ["@ann"], quorum: 1}
---
You change as little as you can.
"""


async def test_halted_product_gets_no_grants_until_it_is_resumed(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    halted = await admin.post("/halt", json={"product": product, "reason": "bad release"})
    assert (halted.json()["halted"], halted.json()["reason"]) == (True, "bad release")
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    assert (await worker.claim()).status_code == 204
    kinds = [matter["kind"] for matter in (await admin.get("/attention")).json()["attention"]]
    assert "halted" in kinds
    assert (await admin.post("/resume", json={"product": product})).json()["halted"] is False
    assert (await worker.granted())["job"]["name"] == "a"


async def test_halt_with_stop_preempts_running_jobs(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    halted = await admin.post("/halt", json={"product": product, "stop": True})
    assert halted.json()["stopping"] == 1
    data = (await worker.beat(running=[grant["job"]["id"]])).json()
    assert data["commands"] == [{"type": "preempt", "jobId": grant["job"]["id"]}]


async def test_halt_without_a_product_halts_the_whole_fleet(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin, a_worker(server) as worker:
        await admin.post("/jobs", json={"manifest": {"name": "a"}})
        assert (await admin.post("/halt")).json()["product"] == "*"
        assert (await worker.claim()).status_code == 204
        listed = (await admin.get("/switches")).json()["switches"]
        assert [(switch["product"], switch["halted"]) for switch in listed] == [("*", True)]
        await admin.post("/resume")
        assert (await worker.claim(wait=10)).status_code == 200


async def test_queue_version_changes_only_with_the_queue(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    async def version() -> int:
        state = (await admin.get("/queue-state")).json()
        assert state["products"] in ({}, {product: state["version"]})
        moved: int = state["version"]
        return moved

    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    await worker.granted()
    first = await version()
    assert first > 0
    assert await version() == first
    await admin.post("/jobs", json={"manifest": {"name": "b"}})
    await worker.granted()
    assert await version() > first


async def test_metrics_count_jobs_by_stage_and_factories(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    for name in ("a", "b"):
        await admin.post("/jobs", json={"manifest": {"name": name}})
    await worker.granted()
    data = (await admin.get("/metrics")).json()
    assert (data["stages"]["queued"], data["stages"]["assigned"], data["queueDepth"]) == (1, 1, 1)
    assert data["board"]["inbox"] == 2
    assert data["factories"]["online"] >= 1


async def test_health_readiness_and_metrics_are_public(server: Server, worker: Worker) -> None:
    async with httpx.AsyncClient(base_url=server.url) as anonymous:
        assert (await anonymous.get("/healthz")).json() == {"status": "ok"}
        assert (await anonymous.get("/readyz")).json()["status"] == "ready"
        text = (await anonymous.get("/metrics")).text
    assert 'gigafactory_jobs{stage="queued"}' in text
    assert "gigafactory_factories_online" in text
    assert 'gigafactory_events_total{type="fenced"}' in text


async def test_product_settings_are_stored_and_returned(
    admin: httpx.AsyncClient, product: str
) -> None:
    assert (await admin.get(f"/products/{product}")).json()["share"] == 1.0
    asked = {"repos": ["notes"], "share": 2.5, "protectedPaths": ["ci/**"]}
    asked |= {"targetWait": {"critical": "5m"}}
    put = await admin.put(f"/products/{product}", json=asked | {"weights": {"affinity": 0.9}})
    assert put.status_code == 200
    data = (await admin.get(f"/products/{product}")).json()
    assert data == put.json()
    assert (data["share"], data["weights"]["affinity"], data["weights"]["load"]) == (2.5, 0.9, 1.0)
    assert data["targetWait"] == {"critical": "5m"}
    listed = (await admin.get("/products")).json()["products"]
    assert data in listed


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": -1}, "share"),
        ({"weights": {"load": -1}}, "weights.load"),
        ({"weights": {"luck": 1}}, "weights.luck"),
        ({"protectedPaths": ["../x"]}, "protectedPaths[0]"),
        ({"repos": ["--x"]}, "repos[0]"),
        ({"targetWait": {"critical": "soon"}}, "targetWait.critical"),
        ({"targetWait": {"critical": "0s"}}, "targetWait.critical"),
        ({"targetWait": {"urgent": "5m"}}, "targetWait"),
    ],
)
async def test_invalid_product_is_rejected(
    admin: httpx.AsyncClient, product: str, asked: dict[str, object], field: str
) -> None:
    answer = await admin.put(f"/products/{product}", json=asked)
    assert answer.status_code == 422
    assert answer.json()["faults"][0]["field"] == field


async def test_saved_profile_is_a_new_version_and_old_ones_remain(
    admin: httpx.AsyncClient,
) -> None:
    markdown = {"content-type": "text/markdown"}
    first = await admin.post("/profiles", content=PROFILE, headers=markdown)
    assert (first.status_code, first.json()["version"]) == (201, 1)
    assert (first.json()["stall"], first.json()["capabilities"]) == ("20m", ["python>=3.11"])
    same = await admin.post("/profiles", json=first.json())
    assert same.json()["version"] == 1
    second = await admin.post("/profiles", json=first.json() | {"persona": "You hurry."})
    assert second.json()["version"] == 2
    assert (await admin.get("/profiles/careful")).json() == second.json()
    assert (await admin.get("/profiles/careful/1")).json() == first.json()
    assert (await admin.get("/profiles/careful/7")).status_code == 404
    assert (await admin.get("/profiles/careful/x")).status_code == 404
    names = [profile["name"] for profile in (await admin.get("/profiles")).json()["profiles"]]
    assert "careful" in names
    assert len(names) > 1


async def test_invalid_profile_names_its_faults(admin: httpx.AsyncClient) -> None:
    answer = await admin.post("/profiles", json={"name": "a b", "colour": "red"})
    assert answer.status_code == 422
    assert {fault["field"] for fault in answer.json()["faults"]} == {"name", "colour"}


async def test_reviewers_list_and_decide_their_pending_reviews(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    policy = {"reviewers": ["ann", "bob"], "quorum": 2}
    await admin.post("/jobs", json={"manifest": {"name": "a", "reviewPolicy": policy}})
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    checkpoint = {"branch": "aq/wip/a/1", "commit": "c0ffee1"}
    await worker.report(grant, stage="review", checkpoint=checkpoint)
    people = {
        name: server.client(await server.token(name, Role.REVIEWER, [product]), product=product)
        for name in ("ann", "bob", "eve")
    }
    async with people["ann"] as ann, people["bob"] as bob, people["eve"] as eve:
        assert [job["name"] for job in (await ann.get("/reviews")).json()["reviews"]] == ["a"]
        assert (await eve.get("/reviews")).json()["reviews"] == []
        decision = {"decision": "approve", "comment": "good", "commit": "c0ffee1"}
        assert (await eve.post("/jobs/a/review", json=decision)).status_code == 403
        stale = await ann.post("/jobs/a/review", json=decision | {"commit": "0ld"})
        assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
        assert (await ann.post("/jobs/a/review", json=decision)).json()["stage"] == "review"
        assert (await ann.get("/reviews")).json()["reviews"] == []
        assert (await bob.post("/jobs/a/review", json=decision)).json()["stage"] == "testing"
        unknown = await bob.post("/jobs/a/review", json={"decision": "shrug"})
        assert (unknown.status_code, unknown.json()["faults"][0]["field"]) == (422, "decision")


async def test_a_review_can_be_requested_from_a_person(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "reviewPolicy": "manual"}})
    early = await admin.post("/jobs/a/review/request")
    assert (early.status_code, early.json()["code"]) == (409, "illegal_transition")
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    await worker.report(grant, stage="review")
    people = {
        name: server.client(await server.token(name, Role.REVIEWER, [product]), product=product)
        for name in ("ann", "bob")
    }
    async with people["ann"] as ann, people["bob"] as bob:
        assert [job["name"] for job in (await bob.get("/reviews")).json()["reviews"]] == ["a"]
        asked = {"reviewers": ["@ann"], "comment": "the schema changed"}
        job = (await bob.post("/jobs/a/review/request", json=asked)).json()
        assert job["stage"] == "review"
        assert (await bob.get("/reviews")).json()["reviews"] == []
        assert [job["name"] for job in (await ann.get("/reviews")).json()["reviews"]] == ["a"]
        others = await ann.post("/jobs/a/review/request", json={"reviewers": ["bob"]})
        assert (others.status_code, others.json()["faults"][0]["field"]) == (422, "reviewers")
        approval = {"decision": "approve"}
        assert (await bob.post("/jobs/a/review", json=approval)).status_code == 403
        assert (await ann.post("/jobs/a/review", json=approval)).json()["stage"] == "testing"


async def test_requested_changes_are_follow_ups_of_the_next_run(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "reviewPolicy": "manual"}})
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    await worker.report(grant, stage="review")
    asked = {"decision": "request-changes", "comment": "use the old name"}
    assert (await admin.post("/jobs/a/review", json=asked)).json()["stage"] == "queued"
    assert (await worker.granted())["followUps"] == ["use the old name"]


async def test_audit_log_is_paged_newest_first(admin: httpx.AsyncClient, product: str) -> None:
    for share in (1, 2, 3):
        await admin.put(f"/products/{product}", json={"share": share})
    mine: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(mine) < 3:
        query = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await admin.get("/audit", params=query)).json()
        mine += [event for event in page["events"] if event["productId"] == product]
        cursor = page["nextCursor"]
    assert [event["type"] for event in mine] == ["product_changed"] * 3
    assert {event["actor"] for event in mine} == {"user:admin"}
    positions = [event["position"] for event in mine]
    assert positions == sorted(positions, reverse=True)
    assert (await admin.get("/audit", params={"limit": 2, "cursor": cursor})).status_code == 422
