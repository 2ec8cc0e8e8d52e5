"""Job tokens: the requests that an agent may send with the token of its job."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.support.api_server import Server, Worker
from tests.support.jobs_api import a_child, a_roadmap, submit_job

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def token_for(worker: Worker, grant: dict[str, Any]) -> str:
    asked = {"leaseEpoch": grant["leaseEpoch"]}
    answer = await worker.http.post(f"/jobs/{grant['job']['id']}/token", json=asked)
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


@asynccontextmanager
async def an_agent(
    server: Server, worker: Worker, grant: dict[str, Any]
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an API client with the job token of this grant."""
    async with server.client(await token_for(worker, grant), product=None) as client:
        yield client


def more(name: str, **manifest: object) -> dict[str, object]:
    return {"jobs": [{"manifest": {"name": name, **manifest}, "body": f"Do {name}."}]}


async def test_an_agent_adds_children_to_its_own_composite(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    roadmap = await submit_job(admin, a_roadmap(a_child("first")))
    grant = await worker.granted()
    async with an_agent(server, worker, grant) as agent:
        answer = await agent.post(f"/jobs/{roadmap['id']}/children", json=more("second"))
        assert answer.status_code == 201, answer.text
        child = answer.json()["jobs"][0]
        assert child["parentId"] == roadmap["id"]
        assert child["submittedBy"] == f"job:{grant['job']['id']}"
        data = (await agent.get(f"/jobs/{roadmap['id']}/dag")).json()
        assert [node["name"] for node in data["nodes"]] == ["roadmap", "first", "second"]
        for path in ("", "/runs", "/logs"):
            assert (await agent.get(f"/jobs/{grant['job']['id']}{path}")).status_code == 200
        assert (await agent.get(f"/jobs/{child['id']}")).status_code == 200


async def test_agent_cannot_add_a_child_that_ships_automatically(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    roadmap = await submit_job(admin, a_roadmap(a_child("first")))
    async with an_agent(server, worker, await worker.granted()) as agent:
        hasty = more("second", shipPolicy="auto")
        refused = await agent.post(f"/jobs/{roadmap['id']}/children", json=hasty)
        assert refused.status_code == 422, refused.text
        [fault] = refused.json()["faults"]
        assert fault["field"].endswith("ship-policy")
        assert "shipped by people" in fault["message"]


async def test_agent_may_add_auto_shipping_children_to_an_auto_shipping_composite(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    roadmap = await submit_job(admin, a_roadmap(a_child("first"), shipPolicy="auto"))
    async with an_agent(server, worker, await worker.granted()) as agent:
        hasty = more("second", shipPolicy="auto")
        taken = await agent.post(f"/jobs/{roadmap['id']}/children", json=hasty)
        assert taken.status_code == 201, taken.text


async def test_agent_has_no_access_outside_its_composite(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    roadmap = await submit_job(admin, a_roadmap(a_child("first")))
    grant = await worker.granted()
    foreign = await submit_job(admin, a_roadmap(a_child("theirs"), name="other"))
    alone = {"name": "alone", "idempotencyKey": "k-1", "deps": ["theirs"]}
    kept = await submit_job(admin, {"manifest": alone})
    async with an_agent(server, worker, grant) as agent:
        for job in ("other", "theirs", "alone"):
            assert (await agent.get(f"/jobs/{job}")).status_code == 404
            assert (await agent.get(f"/jobs/{job}/logs")).status_code == 404
            assert (await agent.get(f"/jobs/{job}/dag")).status_code == 404
        elsewhere = await agent.post(f"/jobs/{foreign['id']}/children", json=more("mine"))
        assert elsewhere.status_code == 404
        # Idempotency keys belong to the product, so this one would replace another job.
        taken = more("mine", idempotencyKey="k-1")
        stolen = await agent.post(f"/jobs/{roadmap['id']}/children", json=taken)
        assert (stolen.status_code, stolen.json()["code"]) == (403, "forbidden")
    assert (await admin.get(f"/jobs/{kept['id']}")).json()["stage"] == "blocked"


async def test_agent_can_read_but_not_extend_a_nested_composite(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    inner = {"name": "inner", "kind": "composite", "children": [a_child("deep", deps=["first"])]}
    await submit_job(admin, a_roadmap(a_child("first"), inner))
    grant = await worker.granted()
    async with an_agent(server, worker, grant) as agent:
        assert (await agent.get("/jobs/deep")).status_code == 200
        answer = await agent.post("/jobs/inner/children", json=more("mine"))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "only to its own" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/jobs"),
        ("GET", "/jobs"),
        ("POST", "/jobs/first/actions/ship"),
        ("POST", "/jobs/first/actions/cancel"),
        ("POST", "/jobs/first/review"),
        ("GET", "/jobs/first/explain"),
        ("GET", "/factories"),
        ("GET", "/attention"),
        ("GET", "/audit"),
        ("GET", "/tokens"),
        ("POST", "/tokens"),
        ("POST", "/claim"),
        ("POST", "/halt"),
        ("GET", "/events/stream"),
        ("POST", "/jobs/first/token"),
    ],
)
async def test_job_token_is_forbidden_on_other_routes(
    server: Server, admin: httpx.AsyncClient, worker: Worker, method: str, path: str
) -> None:
    await submit_job(admin, a_roadmap(a_child("first")))
    async with an_agent(server, worker, await worker.granted()) as agent:
        answer = await agent.request(method, path, json={} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "has a job token" in answer.json()["detail"]


async def test_agent_of_a_job_without_a_composite_cannot_add_children(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job = await submit_job(admin, {"manifest": {"name": "alone"}, "body": "x"})
    async with an_agent(server, worker, await worker.granted()) as agent:
        assert (await agent.get(f"/jobs/{job['id']}")).json()["name"] == "alone"
        answer = await agent.post(f"/jobs/{job['id']}/children", json=more("mine"))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "part of no composite" in answer.json()["detail"]


async def test_job_token_ends_with_its_run(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("first")))
    grant = await worker.granted()
    async with an_agent(server, worker, grant) as agent:
        assert (await agent.get("/jobs/first")).status_code == 200
        ended = {"leaseEpoch": grant["leaseEpoch"], "reason": "draining"}
        released = await worker.http.post(f"/jobs/{grant['job']['id']}/lease/release", json=ended)
        assert released.status_code == 200
        answer = await agent.get("/jobs/first")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert "which has ended" in answer.json()["detail"]


async def test_only_the_lease_holder_gets_a_job_token(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("first")))
    grant = await worker.granted()
    path, asked = f"/jobs/{grant['job']['id']}/token", {"leaseEpoch": grant["leaseEpoch"]}
    person = await admin.post(path, json=asked)
    assert (person.status_code, person.json()["code"]) == (403, "forbidden")
    stale = await worker.http.post(path, json={"leaseEpoch": grant["leaseEpoch"] + 1})
    assert (stale.status_code, stale.json()["code"]) == (409, "fenced")


async def test_job_token_is_never_listed(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit_job(admin, a_roadmap(a_child("first")))
    grant = await worker.granted()
    secret = await token_for(worker, grant)
    assert secret.startswith("gfj_")
    for path in ("/tokens", "/audit", f"/jobs/{grant['job']['id']}/events"):
        result = (await admin.get(path)).text
        assert secret not in result
        assert "gfj_" not in result
    assert grant["job"]["id"] not in (await admin.get("/tokens")).text
