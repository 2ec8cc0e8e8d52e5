"""Access control over HTTP: tokens, roles, scopes, guessing, repeated requests, foreign hosts."""

import asyncio
from pathlib import Path

import httpx
import pytest

from gigafactory.api.http.hosts import LOOPBACK, ServedHosts
from gigafactory.api.http.limits import FailedAttempts, RateLimiter
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Role
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import Server, Worker, a_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("header", ["", "Bearer", "Basic x", "Bearer nonsense"])
async def test_request_without_a_valid_token_is_unauthenticated(
    server: Server, header: str
) -> None:
    async with server.client("", product=None) as anonymous:
        answer = await anonymous.get("/jobs", headers={"authorization": header} if header else {})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_token_secret_is_shown_once_and_never_stored(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    asked = {"user": "ann", "role": "reviewer", "products": [product]}
    made = (await admin.post("/tokens", json=asked)).json()
    assert made["secret"].startswith("gfo_")
    listed = (await admin.get("/tokens")).text
    assert made["id"] in listed
    assert made["secret"] not in listed
    assert made["secret"] not in (await admin.get("/audit")).text
    async with server.client(made["secret"], product=None) as ann:
        assert (await ann.get("/reviews")).json() == {"reviews": []}


async def test_token_of_another_product_gives_no_access(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "mine"}})
    job_id = (await admin.get("/jobs/mine")).json()["id"]
    token = await server.token("eve", Role.ADMIN, [f"{product}-eve"])
    async with server.client(token, product=None) as eve:
        assert (await eve.get(f"/jobs/{job_id}")).status_code == 404
        assert (await eve.post(f"/jobs/{job_id}/actions/cancel")).status_code == 404
        assert (await eve.get("/jobs")).json()["jobs"] == []
        assert (await eve.get(f"/products/{product}")).status_code == 404
        chosen = await eve.get("/jobs", headers={"x-product-id": product})
        assert (chosen.status_code, chosen.json()["code"]) == (403, "forbidden")
        elsewhere = await eve.post("/jobs", json={"manifest": {"product": product}, "body": "x"})
        assert elsewhere.status_code == 403
        wider = await eve.post("/tokens", json={"user": "eve", "role": "admin", "products": ["*"]})
        assert (wider.status_code, wider.json()["code"]) == (403, "forbidden")
        invited = await eve.post("/enrollments", json={"products": [product]})
        assert invited.status_code == 403
        assert (await eve.post("/halt", json={})).status_code == 403


REQUESTS: dict[str, tuple[str, str, dict[str, object]]] = {
    "submit": ("POST", "/jobs", {"manifest": {}, "body": "x"}),
    "approve": ("POST", "/jobs/no-such-job/actions/approve", {}),
    "request-changes": ("POST", "/jobs/no-such-job/actions/request-changes", {}),
    "request-review": ("POST", "/jobs/no-such-job/review/request", {}),
    "ship": ("POST", "/jobs/no-such-job/actions/ship", {}),
    "cancel": ("POST", "/jobs/no-such-job/actions/cancel", {}),
    "promote": ("POST", "/jobs/no-such-job/actions/promote", {}),
    "drain": ("POST", "/factories/no-such-factory/drain", {}),
    "profiles": ("POST", "/profiles", {"name": "mine", "persona": "x"}),
    "enroll": ("POST", "/enrollments", {"products": ["p"]}),
    "deregister": ("DELETE", "/factories/no-such-factory", {}),
    "tokens": ("GET", "/tokens", {}),
    "audit": ("GET", "/audit", {}),
    "read": ("GET", "/jobs", {}),
}


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_is_limited_to_its_verbs(server: Server, product: str, role: Role) -> None:
    token = await server.token("rob", role, [product])
    async with server.client(token, product=product) as client:
        for verb, (method, path, body) in REQUESTS.items():
            answer = await client.request(method, path, json=body if method == "POST" else None)
            allowed = role in ROLES_BY_VERB[verb]
            refused = answer.status_code == 403 and f"{verb} needs one of" in answer.text
            assert refused is not allowed, (role, verb, answer.text)


async def test_user_and_factory_tokens_cannot_act_for_each_other(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    assert (await admin.post("/claim", json={"factoryId": worker.id})).status_code == 403
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    job = f"/jobs/{grant['job']['id']}"
    assert (await admin.patch(job, json={"leaseEpoch": 1, "stage": "building"})).status_code == 403
    assert (await worker.http.post(f"{job}/actions/cancel")).status_code == 403
    assert (await worker.http.post("/jobs", json={"manifest": {}})).status_code == 403
    assert (await worker.http.get(job)).json()["stage"] == "assigned"


async def test_repeated_wrong_tokens_are_limited_and_audited(tmp_path: Path) -> None:
    async with a_server(tmp_path, failed_attempts=FailedAttempts(allowed=5)) as server:
        async with server.client("gfo_wrong", product=None) as eve:
            answers = [await eve.get("/jobs") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3
        assert answers[-1].json()["code"] == "too_many"
        assert int(answers[-1].headers["retry-after"]) > 0
        await server.coordinator.wrong_secrets.step()
        await server.coordinator.wrong_secrets.step()
        async with server.client() as admin:
            noted = [e for e in await audited(admin) if e["type"] == "token_guessing"]
        assert [event["data"] for event in noted] == [
            {"address": "127.0.0.1", "attempts": 3, "addresses": 1}
        ]


async def test_a_refused_guess_stores_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    async with a_server(tmp_path, store=store, failed_attempts=FailedAttempts(allowed=2)) as server:
        position = await store.position()
        async with server.client("gfo_wrong", product=None) as eve:
            for _ in range(5):
                assert (await eve.get("/jobs")).is_client_error
                guess = {"secret": "gfe_wrong", "factoryId": "x"}
                assert (await eve.post("/factories/enroll", json=guess)).is_client_error
                assert (await eve.post("/tracker/webhook", json={})).is_client_error
            async with server.browser() as browser:
                assert (await browser.post("/login", data={"token": "x"})).is_client_error
        assert await store.position() == position


async def test_a_flood_of_refused_requests_is_a_line_of_each_kind_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        a_server(tmp_path, failed_attempts=FailedAttempts(allowed=2)) as server,
        server.client("gfo_wrong", product=None) as eve,
        server.client() as admin,
    ):
        for _ in range(5):
            assert (await eve.get("/jobs")).is_client_error
            assert (await eve.get("/no/such")).status_code == 404
            assert (await admin.get("/jobs/none")).status_code == 404
    lines = capsys.readouterr().out.splitlines()
    assert sum("refused a stranger" in line for line in lines) == len({401, 429, 404})
    assert sum("/jobs/none" in line for line in lines) == 5


async def test_repeated_wrong_enrollment_secrets_are_limited(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path, failed_attempts=FailedAttempts(allowed=2)) as server,
        server.client("", product=None) as eve,
    ):
        asked = {"secret": "gfe_wrong", "factoryId": "x"}
        answers = [await eve.post("/factories/enroll", json=asked) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [401, 401, 429, 429]


async def audited(admin: httpx.AsyncClient) -> list[dict[str, object]]:
    events: list[dict[str, object]] = (await admin.get("/audit")).json()["events"]
    return events


async def test_requests_of_one_token_are_rate_limited(tmp_path: Path) -> None:
    frozen = RateLimiter(per_second=10, burst=3, clock=lambda: 0.0)
    async with a_server(tmp_path, rates=frozen) as server, server.client() as admin:
        answers = [await admin.get("/jobs") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
        assert answers[-1].headers["retry-after"] == "1"
        async with server.client(await server.token("ann")) as ann:
            assert (await ann.get("/jobs")).status_code == 200


async def test_repeated_request_with_one_idempotency_key_gets_one_response(
    admin: httpx.AsyncClient,
) -> None:
    key = {"idempotency-key": "once-1"}
    document = {"manifest": {}, "body": "# Do it"}
    answers = [await admin.post("/jobs", json=document, headers=key) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = await admin.post("/jobs", json=document | {"body": "# Another"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_repeated_claim_with_one_idempotency_key_gets_one_grant(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    for name in ("a", "b"):
        await admin.post("/jobs", json={"manifest": {"name": name}})
    asked, key = {"factoryId": worker.id, "wait": 10}, {"idempotency-key": "claim-1"}
    first = await worker.http.post("/claim", json=asked, headers=key)
    again = await worker.http.post("/claim", json=asked, headers=key)
    assert first.json()["job"]["id"] == again.json()["job"]["id"]
    assert (await worker.granted())["job"]["id"] != first.json()["job"]["id"]


async def test_repeated_report_is_answered_after_the_lease_has_ended(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a", "reviewPolicy": "manual"}})
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    path = f"/jobs/{grant['job']['id']}"
    result, key = {"leaseEpoch": 1, "stage": "review"}, {"idempotency-key": "done-1"}
    first = await worker.http.patch(path, json=result, headers=key)
    again = await worker.http.patch(path, json=result, headers=key)
    assert (first.status_code, again.json()) == (200, first.json())


async def test_idempotency_key_of_one_tenant_reveals_nothing_to_another(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    key, document = {"idempotency-key": "shared"}, {"manifest": {}, "body": "# Secret plan"}
    mine = await admin.post("/jobs", json=document, headers=key)
    token = await server.token("eve", Role.ADMIN, [f"{product}-eve"])
    same_name = await server.token("admin", Role.ADMIN, [f"{product}-eve"])
    for theirs in (token, same_name):
        async with server.client(theirs, product=None) as eve:
            answer = await eve.post("/jobs", json=document, headers=key)
        assert mine.json()["id"] not in answer.text


@pytest.mark.parametrize("key", ["", "a b", "x" * 201])
async def test_invalid_idempotency_key_is_rejected(admin: httpx.AsyncClient, key: str) -> None:
    answer = await admin.post("/jobs", json={}, headers={"idempotency-key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_every_response_has_its_request_id(server: Server, admin: httpx.AsyncClient) -> None:
    given = await admin.get("/jobs", headers={"x-request-id": "trace-7"})
    assert given.headers["x-request-id"] == "trace-7"
    insane = await admin.get("/jobs", headers={"x-request-id": "a b\t<script>"})
    assert insane.headers["x-request-id"] != "a b\t<script>"
    ids = [(await admin.get(path)).headers["x-request-id"] for path in ("/jobs", "/nope", "/jobs")]
    assert len(set(ids)) == 3


async def test_request_with_a_foreign_host_header_is_rejected(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path, hosts=ServedHosts(accepted=LOOPBACK)) as server,
        server.client() as admin,
    ):
        assert (await admin.get("/jobs")).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example:80", ""):
            answer = await admin.get("/jobs", headers={"host": host})
            assert answer.status_code in {400, 421}
            assert "jobs" not in answer.json()


async def test_a_stopping_server_ends_its_streams(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        client = server.client()
        stream = client.build_request("GET", "/events/stream")
        response = await client.send(stream, stream=True)
        reading = asyncio.create_task(response.aread())
    assert isinstance(await reading, bytes)
    await client.aclose()
