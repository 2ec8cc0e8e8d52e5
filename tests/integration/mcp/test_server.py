"""`aq mcp`: the tools that it offers to coding agents, called by the protocol's own client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from mcp import MCPError

from gigafactory.domain.tenancy.access import Role
from tests.integration.api.workers.test_job_tokens import token_for
from tests.support.api_server import Server, Worker, a_server
from tests.support.jobs_api import a_child, a_roadmap, submit_job
from tests.support.mcp_client import Tools, an_agent, an_agent_with_aq

URL = "http://127.0.0.1:1"
"""An address without a server."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A coordinator on a free loopback port."""
    async with a_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@asynccontextmanager
async def a_person(
    server: Server, product: str, role: Role = Role.OPERATOR
) -> AsyncIterator[Tools]:
    """Yield the tools of an agent that works for a person."""
    async with an_agent(server.url, await server.token("ann", role, [product])) as tools:
        yield tools


@asynccontextmanager
async def at_work(
    server: Server, worker: Worker, folder: Path
) -> AsyncIterator[tuple[Tools, dict[str, object]]]:
    """Start the next job of the worker; yield the tools of its agent, and its grant."""
    grant = await worker.granted()
    token = await token_for(worker, grant)
    environ = {"AQ_FLEET_API": server.url, "AQ_FLEET_TOKEN": token, "AQ_JOB_ID": grant["job"]["id"]}
    async with an_agent_with_aq(folder, **environ) as tools:
        yield tools, grant


async def test_listed_tools_describe_their_input(
    server: Server, product: str, tmp_path: Path
) -> None:
    token = await server.token("ann", Role.OPERATOR, [product])
    environ = {"AQ_FLEET_API": server.url, "AQ_FLEET_TOKEN": token}
    async with an_agent_with_aq(tmp_path, **environ) as ann:
        listed = {tool.name: tool for tool in (await ann.client.list_tools()).tools}
    assert set(listed) == {
        *("submit_job", "hand_in_plan", "job_status", "plan_status", "read_log", "list_jobs")
    }
    for tool in listed.values():
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.annotations is not None
        reads = tool.name not in {"submit_job", "hand_in_plan"}
        assert tool.annotations.read_only_hint is reads
    job = listed["submit_job"].input_schema["properties"]["job"]
    assert {"body", "name", "deps", "allowedScope"} <= set(job["properties"])
    assert listed["job_status"].input_schema["required"] == ["job"]
    assert (tmp_path / "stderr.txt").read_text() == ""


async def test_a_job_is_submitted_and_followed_to_its_review(
    server: Server, worker: Worker, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        entry = {"name": "greet", "engine": "claude", "body": "# Say hello\nWrite hello.txt."}
        taken = (await ann.call_ok("submit_job", job=entry))["job"]
        assert (taken["name"], taken["title"]) == ("greet", "Say hello")
        grant = await worker.granted()
        assert grant["bodyMd"] == entry["body"]
        chunk = f"/jobs/{grant['job']['id']}/logs?leaseEpoch={grant['leaseEpoch']}&offset=0"
        await worker.http.post(chunk, content="at work — \x1b]52;c;x\x07here\n".encode())
        await worker.report(grant, stage="building")
        response = await ann.call_ok("job_status", job="greet")
        assert (response["job"]["stage"], response["newestRun"]["number"]) == ("building", 1)
        log = await ann.call_ok("read_log", job="greet")
        assert log["text"] == "at work — here\n"
        await worker.report(
            grant, stage="review", result="ok", verify={"passed": True, "output": "x" * 50_000}
        )
        response = await ann.call_ok("job_status", job=taken["id"], waitSeconds=1)
        assert (response["job"]["stage"], response["job"]["result"]) == ("review", "ok")
        assert response["newestRun"]["verify"]["passed"] is True
        assert len(response["newestRun"]["verify"]["output"]) == 2_000


async def test_waiting_status_call_returns_the_next_stage(
    server: Server, worker: Worker, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        await ann.call_ok("submit_job", job={"name": "greet", "body": "x", "notBefore": "1h"})
        waits = await ann.call_ok("job_status", job="greet")
        assert waits["waitsFor"]
        other = await ann.call_ok("submit_job", job={"name": "other", "body": "x"})
        grant = await worker.granted()
        assert grant["job"]["id"] == other["job"]["id"]
        await worker.report(grant, stage="building")
        await worker.report(grant, stage="review", result="ok")
        response = await ann.call_ok("job_status", job="other", waitSeconds=1)
        assert response["job"]["stage"] == "review"


async def test_repeated_submission_with_one_key_creates_one_job(
    server: Server, admin: httpx.AsyncClient, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        entry = {"body": "# Say hello"}
        first, second = [
            (await ann.call_ok("submit_job", job=entry, key="greeting-1"))["job"]["id"]
            for _ in range(2)
        ]
        assert first == second
        listed = await ann.call_ok("list_jobs")
        assert [job["id"] for job in listed["jobs"]] == [first]


async def test_job_list_and_plan_are_paged(
    server: Server, admin: httpx.AsyncClient, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        roadmap = await submit_job(admin, a_roadmap(a_child("first")))
        children = [{"name": f"step-{n:03}", "body": "x", "deps": ["first"]} for n in range(60)]
        taken = await ann.call_ok("hand_in_plan", parent="roadmap", children=children)
        assert (taken["taken"], len(taken["jobs"]), taken["more"]) == (60, 50, True)
        page = await ann.call_ok("plan_status", composite=roadmap["id"])
        rest = await ann.call_ok("plan_status", composite="roadmap", after=page["nextAfter"])
        names = [job["name"] for job in (*page["jobs"], *rest["jobs"])]
        assert names == ["roadmap", "first", *(child["name"] for child in children)]
        assert (len(page["jobs"]), rest["nextAfter"]) == (50, None)
        assert page["rollup"]["total"] == 61
        blocked = await ann.call_ok("plan_status", composite="roadmap", stage="blocked", limit=200)
        assert len(blocked["jobs"]) == 60
        few = await ann.call_ok("list_jobs", limit=2)
        more = await ann.call_ok("list_jobs", limit=100, cursor=None)
        assert few["nextCursor"]
        assert len(more["jobs"]) == 62


async def test_log_is_read_in_parts_without_splitting_characters(
    server: Server, worker: Worker, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        await ann.call_ok("submit_job", job={"name": "greet", "body": "x"})
        grant = await worker.granted()
        text = "grüße, 世界 🙂\n" * 20
        chunk = f"/jobs/{grant['job']['id']}/logs?leaseEpoch={grant['leaseEpoch']}&offset=0"
        await worker.http.post(chunk, content=text.encode())
        found, offset = "", 0
        while offset < len(text.encode()):
            part = await ann.call_ok("read_log", job="greet", offset=offset, limit=47)
            assert part["offset"] == offset
            found, offset = found + part["text"], part["nextOffset"]
        assert found == text
        for limit in range(5, 10):
            tail = await ann.call_ok("read_log", job="greet", limit=limit)
            assert tail["text"]
            assert text.endswith(tail["text"])
            assert tail["nextOffset"] == len(text.encode())


BAD: list[tuple[str, dict[str, object], str, str]] = [
    ("job_status", {"job": "nowhere"}, "not_found", "there is no job 'nowhere'"),
    ("read_log", {"job": "nowhere"}, "not_found", "nowhere"),
    ("job_status", {"job": 7}, "invalid", "job: Expected `str`, got `int`"),
    ("job_status", {}, "invalid", "missing required field `job`"),
    ("job_status", {"job": "x", "waitSeconds": 3600}, "invalid", "waitSeconds: Expected `int` <="),
    ("job_status", {"job": "../../x"}, "not_found", "x"),
    ("read_log", {"job": "x", "limit": 10**9}, "invalid", "limit: Expected `int` <="),
    ("list_jobs", {"stages": "queued"}, "invalid", "unknown field `stages`"),
    ("list_jobs", {"stage": "asleep"}, "invalid", "stage"),
    ("list_jobs", {"cursor": "nonsense"}, "invalid", "cursor"),
    ("submit_job", {"job": "x"}, "invalid", "job: Expected `object`, got `str`"),
    ("submit_job", {"job": {"body": "x", "timeout": "3x"}}, "invalid", "timeout: found '3x'"),
    ("submit_job", {"job": {"body": "x", "deps": ["gone"]}}, "invalid", "there is no job 'gone'"),
    ("submit_job", {"job": {"body": "x"}, "parent": "nowhere"}, "not_found", "nowhere"),
    ("submit_job", {"job": {"body": "x"}, "key": "a b"}, "invalid", "key: Expected `str` matching"),
    (
        "hand_in_plan",
        {"children": [{"body": "x"}]},
        "invalid",
        "parent: is missing: name a composite",
    ),
    ("hand_in_plan", {"children": []}, "invalid", "children: Expected `array` of length >= 1"),
    (
        "hand_in_plan",
        {"children": [{"body": "x"}, {"phase": "one", "sope": 1}], "parent": "x"},
        "invalid",
        "children[1].sope: found the unknown key 'sope'",
    ),
]


async def test_invalid_input_is_rejected_with_its_fault_and_nothing_is_stored(
    server: Server, admin: httpx.AsyncClient, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        for tool, arguments, code, words in BAD:
            found, said = await ann.call_refused(tool, **arguments)
            assert found == code, (tool, arguments, said)
            assert words in said, (tool, arguments)
        with pytest.raises(MCPError, match="unknown tool 'ship_it'; available: submit_job"):
            await ann.call("ship_it")
        assert (await ann.call_ok("list_jobs"))["jobs"] == []
    assert (await admin.get("/jobs")).json()["jobs"] == []


async def test_plan_with_a_cycle_is_rejected_whole(
    server: Server, admin: httpx.AsyncClient, product: str, tmp_path: Path
) -> None:
    await submit_job(admin, a_roadmap(a_child("first")))
    async with a_person(server, product) as ann:
        circle = [
            {"name": "hen", "body": "x", "deps": ["egg"]},
            {"name": "egg", "body": "x", "deps": ["hen"]},
        ]
        code, said = await ann.call_refused("hand_in_plan", parent="roadmap", children=circle)
        assert code == "cycle"
        assert "hen" in said
        assert len((await ann.call_ok("plan_status", composite="roadmap"))["jobs"]) == 2


async def test_tools_are_limited_to_the_role_of_the_token(
    server: Server, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product, Role.VIEWER) as eve:
        code, said = await eve.call_refused("submit_job", job={"body": "x"})
        assert code == "forbidden"
        assert "user:ann has role viewer; submit needs one of" in said
        assert (await eve.call_ok("list_jobs"))["jobs"] == []
    async with an_agent(server.url, "gfo_guessed-secret") as anonymous:
        code, said = await anonymous.call_refused("list_jobs")
        assert code == "unauthenticated"
        assert "guessed" not in said


async def test_job_agent_plans_only_for_its_own_composite(
    server: Server, admin: httpx.AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    roadmap = await submit_job(admin, a_roadmap(a_child("first")))
    async with at_work(server, worker, tmp_path) as (agent, grant):
        listed = [tool.name for tool in (await agent.client.list_tools()).tools]
        assert "list_jobs" not in listed
        child = (await agent.call_ok("submit_job", job={"name": "second", "body": "x"}))["job"]
        assert child["parentId"] == roadmap["id"]
        plan = [{"name": "third", "body": "x", "deps": ["second"]}]
        taken = await agent.call_ok("hand_in_plan", children=plan)
        assert [job["stage"] for job in taken["jobs"]] == ["blocked"]
        response = await agent.call_ok("plan_status")
        assert [job["name"] for job in response["jobs"]] == ["roadmap", "first", "second", "third"]
        assert (await agent.call_ok("job_status", job="third"))["job"]["stage"] == "blocked"
        await submit_job(admin, a_roadmap(a_child("theirs"), name="other"))
        for refused in (
            await agent.call_refused("submit_job", job={"body": "x"}, parent="other"),
            await agent.call_refused("job_status", job="theirs"),
            await agent.call_refused("read_log", job="theirs"),
            await agent.call_refused("plan_status", composite="other"),
        ):
            assert refused[0] == "not_found"
        await worker.report(grant, stage="building")
        await worker.report(grant, stage="review", result="ok")
        code, said = await agent.call_refused("submit_job", job={"name": "late", "body": "x"})
        assert code == "unauthenticated"
        assert "which has ended" in said


async def test_job_agent_without_a_composite_cannot_add_jobs(
    server: Server, admin: httpx.AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    await submit_job(admin, {"manifest": {"name": "alone"}, "body": "x"})
    async with at_work(server, worker, tmp_path) as (agent, _):
        code, said = await agent.call_refused("submit_job", job={"body": "x"})
        assert code == "forbidden"
        assert "its job is part of no composite" in said


async def test_unreachable_coordinator_is_reported_and_asked_again(tmp_path: Path) -> None:
    token = "gfo_a-secret-of-somebody"
    async with an_agent_with_aq(tmp_path, "--url", URL, AQ_FLEET_TOKEN=token) as agent:
        for _ in range(2):
            code, said = await agent.call_refused("job_status", job="greet")
            assert code == "unreachable"
            assert f"cannot reach {URL}" in said
            assert "try again later" in said
            assert token not in said
    assert token not in (tmp_path / "stderr.txt").read_text()


async def test_concurrent_calls_do_not_wait_for_each_other(
    server: Server, product: str, tmp_path: Path
) -> None:
    async with a_person(server, product) as ann:
        await ann.call_ok("submit_job", job={"name": "greet", "body": "x"})
        patient = asyncio.create_task(ann.call_ok("job_status", job="greet", waitSeconds=50))
        quick = await asyncio.gather(*(ann.call_ok("list_jobs") for _ in range(20)))
        assert {len(page["jobs"]) for page in quick} == {1}
        assert not patient.done()
        patient.cancel()
        await asyncio.wait([patient])
        assert (await ann.call_ok("job_status", job="greet"))["job"]["name"] == "greet"
