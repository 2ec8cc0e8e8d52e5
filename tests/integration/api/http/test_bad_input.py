"""Bad input over HTTP: each kind has its own status, code and a message that names the field."""

import json
import re

import httpx
import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import API, Server, Worker

MIB = 1 << 20
pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKDOWN = {"content-type": "text/markdown"}
JSON = {"content-type": "application/json"}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    data: dict[str, object] = answer.json()
    assert (data["status"], data["code"]) == (status, code)
    assert data["requestId"] == answer.headers["x-request-id"]
    assert data["title"]
    assert "Traceback" not in answer.text
    return data


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("---\nname: [a\n---\nx", 3, "not readable as YAML"),
        ("---\nname: a\n\tb: c\n---\nx", 3, "indent with spaces"),
        ("---\nnam: a\n---\nx", 2, "nam"),
        ("---\npriority: 7\n---\nx", 2, "priority"),
        ("---\nname: ../x\n---\nx", 2, "name"),
        ("---\nlock: &x a\n---\nx", 2, "anchor"),
        ("---\nx-a: &x [1]\nx-b: *x\n---\nx", 3, "alias"),
        ("---\nname: !!python/object:os.system a\n---\nx", 2, "tag"),
        (f"---\nx-a: {'[' * 50}{']' * 50}\n---\nx", 2, "nested deeper"),
        ("---\nname: a\n", 1, "never closed"),
        ("---\nname: a\n---\nx\x00y", 4, "NUL"),
    ],
)
async def test_invalid_job_file_is_rejected_with_its_line(
    admin: httpx.AsyncClient, text: str, line: int, says: str
) -> None:
    answer = await admin.post("/jobs", content=text.encode(), headers=MARKDOWN)
    result = problem(answer, 422, "invalid")
    faults = answer.json()["faults"]
    assert line in [fault.get("line") for fault in faults]
    assert says in str(result["detail"])


async def test_all_faults_of_a_job_file_are_reported_together(admin: httpx.AsyncClient) -> None:
    text = "---\nname: A B\npriority: urgent\ntimeout: soon\n---\nx"
    answer = await admin.post("/jobs", content=text, headers=MARKDOWN)
    problem(answer, 422, "invalid")
    faults = answer.json()["faults"]
    assert [(f["field"], f["line"]) for f in faults] == [
        ("name", 2),
        ("priority", 3),
        ("timeout", 4),
    ]


async def test_non_utf8_job_file_names_the_invalid_byte(admin: httpx.AsyncClient) -> None:
    answer = await admin.post("/jobs", content=b"---\nname: a\n---\n\xff", headers=MARKDOWN)
    assert "0xff" in str(problem(answer, 422, "invalid")["detail"])


async def test_job_body_above_one_mebibyte_is_rejected(admin: httpx.AsyncClient) -> None:
    answer = await admin.post("/jobs", content=b"x" * (MIB + 1), headers=MARKDOWN)
    result = problem(answer, 422, "invalid")
    assert f"found {MIB + 1} bytes; expected at most {MIB}" in str(result["detail"])
    exact = await admin.post("/jobs", content=b"x" * MIB, headers=MARKDOWN)
    assert exact.status_code == 201


async def test_too_large_request_body_is_rejected_before_it_is_read(
    admin: httpx.AsyncClient,
) -> None:
    answer = await admin.post("/jobs", content=b"x" * (2 * MIB), headers=MARKDOWN)
    assert "at most" in str(problem(answer, 413, "too_large")["detail"])


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"manifest": {"name": NaN}}', 400, "byte 22"),
        (b'{"manifest": ', 400, "truncated"),
        (b"\xff\xfe", 400, "not readable as JSON"),
        (b'{"manifest": {"name": "\xff"}}', 400, "UTF-8"),
        (b'{"manifest":' + b"[" * 100_000, 400, "nested too deeply"),
        (b"[1, 2]", 422, "expected object, got array"),
        (b'{"manifest": {"name": "a"}, "body": "x\\u0000y"}', 422, "NUL"),
        (b'{"manifest": {"name": "a"}, "body": 7}', 422, "body"),
        (b'{"manifest": "a"}', 422, "manifest"),
        (b'{"manifest": {"name": "a", "prio": 1}}', 422, "prio"),
        (b'{"manifest": {"name": ["a"]}}', 422, "name"),
        (b'{"manifest": {"name": "../x"}}', 422, "name"),
        (b'{"manifest": {"repo": "--upload-pack=x"}}', 422, "repo"),
        (b'{"manifest": {"repo": "ext::sh -c x"}}', 422, "repo"),
        (b'{"extra": 1}', 422, "extra"),
        (b'{"jobs": []}', 422, "1 to 1000"),
        (b'{"jobs": 3}', 422, "a list of 1 to 1000"),
        (b'{"jobs": [7]}', 422, "jobs[0]"),
    ],
)
async def test_invalid_json_is_rejected_with_its_position(
    admin: httpx.AsyncClient, body: bytes, status: int, says: str
) -> None:
    answer = await admin.post("/jobs", content=body, headers=JSON)
    result = problem(answer, status, "malformed" if status == 400 else "invalid")
    assert says in str(result["detail"])
    assert (await admin.get("/jobs")).json()["jobs"] == []


async def test_batch_of_more_than_a_thousand_jobs_is_rejected(admin: httpx.AsyncClient) -> None:
    jobs = [{"manifest": {}, "body": str(n)} for n in range(1001)]
    answer = await admin.post("/jobs", json={"jobs": jobs})
    assert "1 to 1000" in str(problem(answer, 422, "invalid")["detail"])


async def test_unsupported_media_type_is_rejected_with_the_supported_ones(
    admin: httpx.AsyncClient,
) -> None:
    answer = await admin.post("/jobs", content=b"<x/>", headers={"content-type": "text/xml"})
    assert "text/markdown or application/json" in str(problem(answer, 400, "malformed")["detail"])


async def test_dependency_cycle_is_rejected_with_its_path(admin: httpx.AsyncClient) -> None:
    jobs = [
        {"manifest": {"name": "a", "deps": ["b"]}},
        {"manifest": {"name": "b", "deps": ["a"]}},
    ]
    answer = await admin.post("/jobs", json={"jobs": jobs})
    problem(answer, 409, "cycle")
    assert answer.json()["path"] in (["a", "b", "a"], ["b", "a", "b"])


async def test_an_unknown_dependency_is_named(admin: httpx.AsyncClient) -> None:
    answer = await admin.post("/jobs", json={"manifest": {"deps": ["nobody"]}, "body": "x"})
    assert "there is no job 'nobody'" in str(problem(answer, 422, "invalid")["detail"])


async def test_name_of_an_unfinished_job_is_rejected(admin: httpx.AsyncClient) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    answer = await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "other"})
    assert "choose another name" in str(problem(answer, 409, "name_taken")["detail"])


async def test_used_idempotency_key_with_other_content_is_a_conflict(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    first = {"manifest": {"name": "a", "idempotencyKey": "k"}, "body": "one"}
    await admin.post("/jobs", json=first)
    await worker.granted()
    answer = await admin.post("/jobs", json=first | {"body": "two"})
    assert "use a new key" in str(problem(answer, 409, "idempotency_conflict")["detail"])


async def test_repo_of_another_product_is_rejected_and_names_its_owner(
    admin: httpx.AsyncClient, product: str
) -> None:
    await admin.put(f"/products/{product}", json={"repos": ["notes"]})
    await admin.put(f"/products/{product}-shop", json={"repos": [f"{product}-web"]})
    answer = await admin.post("/jobs", json={"manifest": {"repo": f"{product}-web"}, "body": "x"})
    result = problem(answer, 422, "repo_not_owned")
    assert f"belongs to product '{product}-shop'" in str(result["detail"])


@pytest.mark.parametrize(
    "repo", ["https://evil.example/x/notes.git", "/srv/private/notes", "other/notes"]
)
async def test_a_repo_is_not_owned_because_of_the_last_part_of_its_address(
    admin: httpx.AsyncClient, product: str, repo: str
) -> None:
    await admin.put(f"/products/{product}", json={"repos": ["notes"]})
    assert (await admin.post("/jobs", json={"manifest": {"repo": "notes"}})).status_code == 201
    answer = await admin.post("/jobs", json={"manifest": {"repo": repo}, "body": "x"})
    assert "its repos are notes" in str(problem(answer, 422, "repo_not_owned")["detail"])


async def test_a_job_works_in_place_only_in_repos_of_its_product(
    admin: httpx.AsyncClient, product: str
) -> None:
    await admin.put(f"/products/{product}", json={"repos": ["notes", "/srv/notes"]})
    answer = await admin.post("/jobs", json={"manifest": {"cwd": "/srv/private"}, "body": "x"})
    assert "lists by its path" in str(problem(answer, 422, "repo_not_owned")["detail"])
    answer = await admin.post("/jobs", json={"manifest": {"cwd": "/srv/notes/part"}, "body": "x"})
    assert answer.status_code == 201


async def test_a_repo_of_a_product_out_of_scope_does_not_name_its_owner(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    await admin.put(f"/products/{product}", json={"repos": ["notes"]})
    await admin.put(f"/products/{product}-shop", json={"repos": [f"{product}-web"]})
    token = await server.token("eve", Role.OPERATOR, [product])
    async with server.client(token, product=None) as eve:
        answer = await eve.post("/jobs", json={"manifest": {"repo": f"{product}-web"}})
    assert f"{product}-shop" not in str(problem(answer, 422, "repo_not_owned")["detail"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=1000000000", "limit"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("stage=finished", "stage"),
        ("sort=random", "sort"),
        ("priority=urgent", "priority"),
        ("colour=red", "colour"),
        ("limit=1&limit=2", "limit"),
        ("text=a%00b", "text"),
        ("cursor=%21%21", "cursor"),
        ("cursor=WyJhIiwiYiJd", "cursor"),
    ],
)
async def test_invalid_query_names_its_parameter(
    admin: httpx.AsyncClient, query: str, field: str
) -> None:
    answer = await admin.get(f"/jobs?{query}")
    problem(answer, 422, "invalid")
    assert [fault["field"] for fault in answer.json()["faults"]] == [field]


async def test_cursor_of_another_query_is_rejected(admin: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await admin.post("/jobs", json={"manifest": {"name": name}})
    cursor = (await admin.get("/jobs?limit=1")).json()["nextCursor"]
    answer = await admin.get("/jobs", params={"limit": 1, "stage": "queued", "cursor": cursor})
    assert "belongs to another query" in str(problem(answer, 422, "invalid")["detail"])
    other = await admin.get(
        "/jobs", params={"limit": 1, "cursor": cursor}, headers={"x-product-id": "other"}
    )
    problem(other, 422, "invalid")


@pytest.mark.parametrize("reference", ["..%2Fx", "a%00b", "%2e%2e", "x" * 300, "no-such-job", "ä"])
async def test_unknown_job_reference_is_not_found(admin: httpx.AsyncClient, reference: str) -> None:
    problem(await admin.get(f"/jobs/{reference}"), 404, "not_found")


async def test_unknown_route_or_method_is_a_problem_document(admin: httpx.AsyncClient) -> None:
    problem(await admin.get("/nothing"), 404, "not_found")
    answer = await admin.put("/jobs")
    problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slots": -1}, "slots"),
        ({"slots": 10**9}, "slots"),
        ({"seats": {"claude": -2}}, "seats[...]"),
        ({"load": -0.1}, "load"),
        ({"cpu": 1e9}, "cpu"),
        ({"capabilities": ["node>=20"]}, "capabilities[0]"),
        ({"capabilities": ["os:mac", "no way"]}, "capabilities[1]"),
        ({"capabilities": [f"a:{n}" for n in range(501)]}, "capabilities"),
        ({"repos": [f"r{n}" for n in range(1001)]}, "repos"),
        ({"costClass": 9}, "costClass"),
        ({"factoryId": "../mac"}, "factoryId"),
        ({"factoryId": "mac-1\n"}, "factoryId"),
        ({"engines": {"claude": {"coolingUntil": "2999-01-01T00:00:00Z"}}}, None),
        ({"engines": {"claude": {"coolingUntil": "soon"}}}, None),
        ({"instanceId": ""}, "instanceId"),
    ],
)
async def test_invalid_heartbeat_is_rejected(
    worker: Worker, change: dict[str, object], field: str | None
) -> None:
    answer = await worker.beat(**change)
    problem(answer, 422, "invalid")
    assert field in (None, answer.json()["faults"][0]["field"])


async def test_nan_in_json_is_malformed(worker: Worker) -> None:
    body = json.dumps({"factoryId": worker.id, "instanceId": "a", "load": float("nan")})
    answer = await worker.http.post("/factories/heartbeat", content=body, headers=JSON)
    problem(answer, 400, "malformed")


@pytest.mark.parametrize(
    ("usage", "field"),
    [
        ({"tokensIn": -1}, "usage.tokensIn"),
        ({"costUsd": -0.01}, "usage.costUsd"),
        ({"costUsd": "NaN"}, "usage.costUsd"),
        ({"costUsd": "-3"}, "usage.costUsd"),
        ({"turns": 10**16}, "usage.turns"),
        ({"dollars": 3}, "usage.dollars"),
    ],
)
async def test_invalid_usage_is_rejected(
    admin: httpx.AsyncClient, worker: Worker, usage: dict[str, object], field: str
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    answer = await worker.report(await worker.granted(), usage=usage)
    problem(answer, 422, "invalid")
    assert answer.json()["faults"][0]["field"] == field


async def test_report_with_an_illegal_stage_is_rejected(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    shipped = problem(await worker.report(grant, stage="shipped"), 409, "illegal_transition")
    assert "is assigned and cannot become shipped" in str(shipped["detail"])
    problem(await worker.report(grant, stage="flying"), 422, "invalid")
    problem(await worker.report(grant, stge="building"), 422, "invalid")


@pytest.mark.parametrize("sign", ["\r", "\x85", "\u2028", "\u2029"])
async def test_broken_frontmatter_with_other_line_ends_is_refused(
    admin: httpx.AsyncClient, sign: str
) -> None:
    text = f'---\nx: "{sign * 3}" y: [\n---\nb'
    problem(await admin.post("/jobs", content=text.encode(), headers=MARKDOWN), 422, "invalid")


async def test_a_profile_without_a_name_is_refused(admin: httpx.AsyncClient) -> None:
    problem(await admin.post("/profiles", json={"name": None}), 422, "invalid")
    answer = await admin.post("/profiles", content="---\nname: ~\n---\nx", headers=MARKDOWN)
    problem(answer, 422, "invalid")


async def test_a_document_of_too_many_values_is_refused(admin: httpx.AsyncClient) -> None:
    body = b'{"manifest": {"x-a": [' + b"1," * 600_000 + b"1]}}"
    problem(await admin.post("/jobs", content=body, headers=JSON), 422, "invalid")


async def test_a_batch_with_many_faults_tells_the_first_hundred(admin: httpx.AsyncClient) -> None:
    jobs = [{"manifest": {"priorty": 1}, "body": "x"}] * 1000
    answer = await admin.post("/jobs", json={"jobs": jobs})
    problem(answer, 422, "invalid")
    assert len(answer.json()["faults"]) == 100


DECIDED_BY_THE_BODY = {
    ("post", "/jobs/{job_id}/review"),
    ("post", "/jobs/{job_id}/artifacts"),
}
ALLOWED = {("post", "/artifacts/{artifact_id}/links")}


async def test_what_a_viewer_may_not_do_is_refused_before_the_body_is_parsed(
    server: Server, admin: httpx.AsyncClient
) -> None:
    described = (await admin.get(f"{server.url}/api/openapi.json")).json()
    asked = {
        (method, path.removeprefix(API))
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation and "security" in operation
    }
    async with server.client(await server.token("vera", Role.VIEWER)) as vera:
        for method, path in sorted(asked - DECIDED_BY_THE_BODY - ALLOWED):
            place = re.sub(r"\{action\}", "cancel", path)
            place = re.sub(r"\{\w+\}", "x", place)
            answer = await vera.request(method, place, content=b"{broken", headers=JSON)
            assert answer.status_code == 403, (method, path, answer.text)
    assert len(asked) > 25
