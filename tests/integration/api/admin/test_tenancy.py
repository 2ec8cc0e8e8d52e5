"""Two tenants of one fleet: neither can see or change anything of the other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker, a_worker, open_stream

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, kw_only=True)
class Tenants:
    """Admins of two products, a factory and tokens of the other product, and a shared factory."""

    server: Server
    own: str
    ann: httpx.AsyncClient
    """The admin of the own product."""
    other: str
    bob: httpx.AsyncClient
    """The admin of the other product."""
    theirs: Worker
    shared: Worker
    fleet_token: str
    """The id of a token for the whole fleet."""
    their_token: str
    their_invitation: str

    @asynccontextmanager
    async def person(self, role: Role) -> AsyncIterator[httpx.AsyncClient]:
        """Yield an API client of a person with this role in the own product."""
        secret = await self.server.token(f"{role}-{self.own}", role, [self.own])
        async with self.server.client(secret, product=None) as client:
            yield client


@pytest_asyncio.fixture(loop_scope="module")
async def tenants(server: Server, product: str) -> AsyncIterator[Tenants]:
    """Two tenants with a factory, a token and an invitation each, and a shared factory."""
    other = f"{product}-other"
    async with AsyncExitStack() as stack:

        async def client(token: str, chosen: str | None = None) -> httpx.AsyncClient:
            return await stack.enter_async_context(server.client(token, product=chosen))

        root = await client(server.admin_token)
        ann = await client(await server.token(f"ann-{product}", Role.ADMIN, [product]))
        bob = await client(await server.token(f"bob-{product}", Role.ADMIN, [other]))
        theirs = await stack.enter_async_context(a_worker(server, f"m2-{other}", products=[other]))
        await theirs.beat(capabilities=["os:linux", f"cred:{other}-db"], repos=[f"{other}-merger"])
        shared = await stack.enter_async_context(a_worker(server, f"star-{product}"))
        fleet = await made(root, "/tokens", user=f"root-{product}", role="admin", products=["*"])
        token = await made(bob, "/tokens", user=f"bo-{product}", role="viewer", products=[other])
        invitation = await made(bob, "/enrollments", products=[other])
        yield Tenants(
            server=server,
            own=product,
            ann=ann,
            other=other,
            bob=bob,
            theirs=theirs,
            shared=shared,
            fleet_token=fleet["id"],
            their_token=token["id"],
            their_invitation=invitation["id"],
        )


async def made(client: httpx.AsyncClient, place: str, **document: object) -> dict[str, Any]:
    answer = await client.post(place, json=document)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def test_an_admin_of_one_product_lists_only_tokens_within_its_scope(
    tenants: Tenants,
) -> None:
    listed = (await tenants.ann.get("/tokens")).json()["tokens"]
    assert {tuple(each["products"]) for each in listed} == {(tenants.own,)}
    assert (await tenants.ann.get("/enrollments")).json()["enrollments"] == []


@pytest.mark.parametrize("token", ["fleet_token", "their_token"])
async def test_an_admin_of_one_product_cannot_revoke_a_wider_or_foreign_token(
    tenants: Tenants, token: str
) -> None:
    answer = await tenants.ann.delete(f"/tokens/{getattr(tenants, token)}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_an_admin_of_one_product_cannot_withdraw_a_foreign_invitation(
    tenants: Tenants,
) -> None:
    answer = await tenants.ann.delete(f"/enrollments/{tenants.their_invitation}")
    assert answer.status_code == 404
    listed = (await tenants.bob.get("/enrollments")).json()["enrollments"]
    assert tenants.their_invitation in {each["id"] for each in listed}


@pytest.mark.parametrize(
    ("method", "verb"),
    [("POST", "/token/rotate"), ("POST", "/token/revoke"), ("DELETE", ""), ("POST", "/drain")],
)
async def test_an_admin_of_one_product_has_no_power_over_other_factories(
    tenants: Tenants, method: str, verb: str
) -> None:
    shared = await tenants.ann.request(method, f"/factories/{tenants.shared.id}{verb}", json={})
    assert (shared.status_code, shared.json()["code"]) == (403, "forbidden")
    foreign = await tenants.ann.request(method, f"/factories/{tenants.theirs.id}{verb}", json={})
    assert (foreign.status_code, foreign.json()["code"]) == (404, "not_found")
    assert (await tenants.shared.beat()).json()["commands"] == []
    assert (await tenants.theirs.beat()).json()["commands"] == []


async def test_an_operator_of_one_product_cannot_drain_a_shared_factory(tenants: Tenants) -> None:
    async with tenants.person(Role.OPERATOR) as olaf:
        assert (await olaf.get(f"/factories/{tenants.shared.id}")).status_code == 200
        answer = await olaf.post(f"/factories/{tenants.shared.id}/drain", json={})
    assert answer.status_code == 403


async def test_an_admin_of_one_product_still_controls_its_own_factory(tenants: Tenants) -> None:
    async with a_worker(tenants.server, f"own-{tenants.own}", products=[tenants.own]) as own:
        rotated = await tenants.ann.post(f"/factories/{own.id}/token/rotate")
        assert rotated.status_code == 200
        drained = await tenants.ann.post(f"/factories/{own.id}/drain", json={})
        assert drained.json()["draining"] is True
        assert (await tenants.ann.delete(f"/factories/{own.id}")).status_code == 204
    items = [each["type"] for each in (await tenants.ann.get("/audit")).json()["events"]]
    assert {"factory_deregistered", "token_rotated", "factory_enrolled"} <= set(items)


@pytest.mark.parametrize("method", ["halt", "resume"])
async def test_a_foreign_product_cannot_be_halted_and_is_not_revealed(
    tenants: Tenants, method: str
) -> None:
    foreign = await tenants.ann.post(f"/{method}", json={"product": tenants.other})
    assert foreign.status_code == 404
    assert (await tenants.ann.post(f"/{method}", json={})).status_code == 403
    assert (await tenants.ann.post(f"/{method}", json={"product": tenants.own})).status_code == 200


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.REVIEWER, Role.ADMIN])
async def test_the_audit_log_of_one_product_names_nothing_foreign(
    tenants: Tenants, role: Role
) -> None:
    async with tenants.person(role) as person:
        result = (await person.get("/audit?limit=500")).json()["events"]
    assert {each["productId"] for each in result} == {tenants.own}
    assert tenants.other not in str(result)
    assert tenants.shared.id not in str(result)


async def test_a_fleet_admin_reads_the_whole_audit_log(tenants: Tenants) -> None:
    for chosen in (None, tenants.own):
        async with tenants.server.client(product=chosen) as root:
            result = (await root.get("/audit?limit=500")).json()["events"]
        assert {"*", tenants.own} <= {each["productId"] for each in result}


@pytest.mark.parametrize("role", list(Role))
async def test_the_event_stream_of_one_product_names_nothing_foreign(
    tenants: Tenants, role: Role
) -> None:
    async with (
        tenants.person(role) as person,
        open_stream(person, "/events/stream") as messages,
    ):
        # All of these events are fleet-level or foreign; the job is the first visible one.
        await tenants.theirs.beat(capabilities=["os:linux"])
        await tenants.shared.beat(capabilities=["os:linux"])
        await made(tenants.bob, "/tokens", user="bea", role="viewer", products=[tenants.other])
        await made(tenants.ann, "/jobs", manifest={"name": f"first-{role}"}, body="x")
        items = [each async for each in _until_job(messages)]
    assert {each["productId"] for each in items} == {tenants.own}


async def _until_job(messages: AsyncIterator[Any]) -> AsyncIterator[dict[str, Any]]:
    async for each in messages:
        if each.data is not None:
            yield each.data
            if each.data["jobId"] is not None:
                return


async def test_a_halt_of_the_fleet_reaches_every_stream(tenants: Tenants) -> None:
    async with (
        tenants.person(Role.VIEWER) as vic,
        open_stream(vic, "/events/stream") as messages,
        tenants.server.client(product=None) as root,
    ):
        await root.post("/halt", json={})
        await root.post("/resume", json={})
        items = [each.data["type"] async for each in _first(messages, 2)]
    assert items == ["halted", "resumed"]


async def _first(messages: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async for each in messages:
        if each.data is not None:
            yield each
            count -= 1
        if not count:
            return


async def test_an_explanation_names_no_factory_and_no_token_of_others(tenants: Tenants) -> None:
    needs = [f"cred:{tenants.other}-d", f"repo:{tenants.other}-merge"]
    job = await made(tenants.ann, "/jobs", manifest={"capabilities": needs}, body="x")
    result = (await tenants.ann.get(f"/jobs/{job['id']}/explain")).text
    assert tenants.theirs.id not in result
    assert f"cred:{tenants.other}-db" not in result
    assert f"repo:{tenants.other}-merger" not in result
    assert "star-" in result, "a shared factory is visible"
    waiting = (await tenants.ann.get("/attention")).text
    assert f"cred:{tenants.other}-db" not in waiting


async def test_a_shared_factory_is_listed_without_the_repos_of_others(tenants: Tenants) -> None:
    await tenants.shared.beat(repos=[f"{tenants.other}-merger"])
    assert f"{tenants.other}-merger" not in (await tenants.ann.get("/factories")).text
    place = f"/factories/{tenants.shared.id}"
    assert (await tenants.ann.get(place)).json()["repos"] == []
    assert (await tenants.shared.http.get(place)).json()["repos"] == [f"{tenants.other}-merger"]


async def test_two_people_of_one_name_in_two_tenants_do_not_share_idempotency_keys(
    tenants: Tenants,
) -> None:
    ids = set()
    for product in (tenants.own, tenants.other):
        secret = await tenants.server.token("sam", Role.OPERATOR, [product])
        async with tenants.server.client(secret, product=None) as sam:
            key = {"idempotency-key": "monday"}
            document = {"manifest": {"name": "report"}, "body": product}
            first = await sam.post("/jobs", json=document, headers=key)
            assert first.status_code == 201, first.text
            again = await sam.post("/jobs", json=document, headers=key)
            assert again.json()["id"] == first.json()["id"]
            ids.add(first.json()["id"])
    assert len(ids) == 2


async def test_a_factory_reads_only_the_jobs_that_it_has_or_had(tenants: Tenants) -> None:
    job = await made(tenants.ann, "/jobs", manifest={"name": "secret-plan"}, body="The plan.")
    place = f"/jobs/{job['id']}"
    params = {"name": "a.txt", "sha256": sha256(b"text").hexdigest()}
    attached = await tenants.ann.post(f"{place}/artifacts", params=params, content=b"text")
    assert attached.status_code == 201, attached.text
    file = f"/artifacts/{attached.json()['id']}"
    parts = ("?include=body", "/events", "/runs", "/logs", "/artifacts", "/diff", "/explain")
    async with a_worker(tenants.server, f"own-{tenants.own}", products=[tenants.own]) as own:
        for each in (f"{place}{part}" for part in parts):
            assert (await own.http.get(each)).status_code == 404, each
        assert (await own.http.get(file)).status_code == 404
        assert (await own.http.get(place)).json()["stage"] == "queued", "for cleaning up"
        grant = await own.granted()
        assert grant["job"]["id"] == job["id"]
        await own.report(grant, stage="failed", result="crash", reason="x")
        assert (await own.http.get(f"{place}?include=body")).json()["body"] == "The plan."
        assert (await own.http.get(file)).content == b"text"
        assert (await own.http.get("/events/stream")).status_code == 403
        assert (await own.http.get("/attention")).status_code == 403


async def test_a_checkpoint_is_stored_as_the_reporting_factory_s_own(tenants: Tenants) -> None:
    await made(tenants.ann, "/jobs", manifest={"name": "work"}, body="x")
    async with a_worker(tenants.server, f"own-{tenants.own}", products=[tenants.own]) as own:
        grant = await own.granted()
        forged = {"branch": "aq/wip/x/1", "commit": "4f2a91c", "factoryId": tenants.theirs.id}
        result = await own.report(grant, checkpoint=forged | {"sessionId": "theirs"})
        assert result.json()["checkpoint"]["factoryId"] == own.id
        option = forged | {"commit": "--upload-pack=x"}
        assert (await own.report(grant, checkpoint=option)).status_code == 422
