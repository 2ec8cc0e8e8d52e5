"""The authorization matrix: every caller tries every operation of the API.

Each operation has a row with the least right that it needs and the object that it touches. A new
operation without a row fails the test. A refused call must change nothing.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from litestar.routes import HTTPRoute

from gigafactory.api.app import create_app
from gigafactory.api.http.openapi import describe
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.tenancy.access import Role
from gigafactory.server.app import create_application
from gigafactory.web.routes import PAGES
from tests.support.api_server import API, SYSTEM, a_coordinator
from tests.support.authorization import ANY, REFUSED, Prepare, Row, Try, at
from tests.support.two_tenants import (
    CALLERS,
    COMMIT,
    FLEET,
    NOBODY,
    OTHER,
    OWN,
    Agent,
    Caller,
    Machine,
    Person,
    TwoTenants,
    heartbeat,
    machine_id,
)


def with_new_job(suffix: str, document: object = None) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        return Try(f"/jobs/{await world.submit()}{suffix}", document)

    return prepare


def with_lease(make: Callable[[dict[str, Any]], Try]) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        return make(await world.lease(Machine(OWN)))

    return prepare


def with_new_factory(suffix: str, scope: str = OWN, document: object = None) -> Prepare:
    """Prepare a factory that the call may change; the factory itself calls with its own token."""

    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        name = f"spare-{await world.store.position()}"
        secret = await world.factory(name, scope)
        itself = isinstance(caller, Machine) and caller.scope == scope
        return Try(f"/factories/{name}{suffix}", document, secret if itself else None)

    return prepare


def of_factory(place: str, make: Callable[[str], object]) -> Prepare:
    return at(place, make(machine_id(Machine(OWN))))


async def _new_token(world: TwoTenants, caller: Caller) -> Try:
    made = await world.coordinator.tokens.issue(SYSTEM, "spare", Role.VIEWER, (OWN,))
    return Try(f"/tokens/{made.token.id}")


async def _fleet_token(world: TwoTenants, caller: Caller) -> Try:
    made = await world.coordinator.tokens.issue(SYSTEM, "spare", Role.VIEWER, (FLEET,))
    return Try(f"/tokens/{made.token.id}")


def _invitation(scope: str) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        made = await world.coordinator.enrolment.invite(SYSTEM, (scope,))
        return Try(f"/enrollments/{made.id}")

    return prepare


async def _enroll(world: TwoTenants, caller: Caller) -> Try:
    invited = await world.coordinator.enrolment.invite(SYSTEM, (OWN,))
    name = f"joins-{await world.store.position()}"
    return Try("/factories/enroll", {"secret": invited.secret, "factoryId": name})


async def _new_artifact(world: TwoTenants, caller: Caller) -> Try:
    return Try(f"/artifacts/{await world.attach(world.job)}")


def _upload(query: dict[str, object]) -> str:
    result = {"name": "a.txt", "sha256": sha256(b"x").hexdigest(), **query}
    return f"/artifacts?{urlencode(result)}"


def _report(grant: dict[str, Any]) -> Try:
    return Try(f"/jobs/{grant['job']['id']}", {"leaseEpoch": grant["leaseEpoch"], "note": "x"})


def _reports(grant: dict[str, Any]) -> Try:
    result = {"jobId": grant["job"]["id"], "leaseEpoch": grant["leaseEpoch"], "note": "x"}
    return Try("/reports", {"reports": [result]})


def _fail(grant: dict[str, Any]) -> Try:
    result = {"jobId": grant["job"]["id"], "leaseEpoch": grant["leaseEpoch"]}
    return Try("/fail", result | {"result": "crash", "reason": "x"})


def _leased(suffix: str, **more: object) -> Callable[[dict[str, Any]], Try]:
    def make(grant: dict[str, Any]) -> Try:
        result = {"leaseEpoch": grant["leaseEpoch"], **more}
        return Try(f"/jobs/{grant['job']['id']}{suffix}", result)

    return make


def _log(grant: dict[str, Any]) -> Try:
    epoch = grant["leaseEpoch"]
    return Try(f"/jobs/{grant['job']['id']}/logs?leaseEpoch={epoch}&offset=0", b"line\n")


def _artifact(grant: dict[str, Any]) -> Try:
    place = _upload({"leaseEpoch": grant["leaseEpoch"]})
    return Try(f"/jobs/{grant['job']['id']}{place}", b"x")


def _action(action: str) -> Row:
    document = {"reason": "because", "commit": COMMIT if action in {"approve", "ship"} else None}
    return Row(action, with_new_job(f"/actions/{action}", document))


async def _accept(world: TwoTenants, caller: Caller) -> Try:
    me = machine_id(Machine(OWN))
    return Try("/accept", {"factoryId": me, "jobId": world.job, "offerId": "gone"})


async def _echo(world: TwoTenants, caller: Caller) -> Try:
    return Try("/tracker/echo", {"jobId": world.job})


PRODUCT: dict[str, object] = {"share": 1.0}
TICKET = {"item": {"id": "7", "title": "Mend it", "description": "It is broken."}}
ROWS: dict[str, tuple[Row, ...]] = {
    "GET /healthz": (Row(None, at("/healthz"), everybody=True),),
    "GET /readyz": (Row(None, at("/readyz"), everybody=True),),
    "POST /jobs": (Row("submit", at("/jobs", {"manifest": {}, "body": "x"}), ANY),),
    "GET /jobs": (Row("read", at("/jobs"), ANY, "any"),),
    "GET /jobs/{job_id}": (
        Row("read", at("/jobs/{leased}"), machines="any", agents=True),
        Row("read", at("/jobs/{leased}?include=body"), machines="worker", agents=True),
    ),
    "POST /jobs/{job_id}/actions/{action}": tuple(_action(action) for action in ACTIONS),
    "POST /claim": (
        Row(None, of_factory("/claim", lambda me: {"factoryId": me}), machines="itself"),
    ),
    "POST /accept": (Row(None, _accept, machines="itself"),),
    "PATCH /jobs/{job_id}": (Row(None, with_lease(_report), machines="worker"),),
    "POST /fail": (Row(None, with_lease(_fail), machines="worker"),),
    "POST /reports": (Row(None, with_lease(_reports), machines="worker"),),
    "POST /jobs/{job_id}/lease/renew": (
        Row(None, with_lease(_leased("/lease/renew")), machines="worker"),
    ),
    "POST /jobs/{job_id}/lease/release": (
        Row(None, with_lease(_leased("/lease/release", reason="x")), machines="worker"),
    ),
    "POST /factories/enroll": (Row(None, _enroll, everybody=True),),
    "GET /factories": (Row("read", at("/factories"), ANY, "any"),),
    "GET /factories/{factory_id}": (
        Row("read", at("/factories/f-notes"), machines="any"),
        Row("read", at("/factories/f-fleet"), ANY, "any"),
    ),
    "DELETE /factories/{factory_id}": (
        Row("deregister", with_new_factory(""), machines="itself"),
        Row("deregister", with_new_factory("", FLEET), FLEET, "itself"),
    ),
    "POST /factories/{factory_id}/drain": (
        Row("drain", with_new_factory("/drain", document={}), machines="itself"),
        Row("drain", with_new_factory("/drain", FLEET, {}), FLEET, "itself"),
    ),
    "POST /factories/{factory_id}/token/rotate": (
        Row("enroll", with_new_factory("/token/rotate"), machines="itself"),
        Row("enroll", with_new_factory("/token/rotate", FLEET), FLEET, "itself"),
    ),
    "POST /factories/{factory_id}/token/revoke": (
        Row("enroll", with_new_factory("/token/revoke"), machines="itself"),
        Row("enroll", with_new_factory("/token/revoke", FLEET), FLEET, "itself"),
    ),
    "GET /factories/{factory_id}/offers": (
        Row(None, with_new_factory("/offers"), machines="itself"),
    ),
    "POST /factories/heartbeat": (
        Row(None, of_factory("/factories/heartbeat", heartbeat), machines="itself"),
    ),
    "POST /enrollments": (
        Row("enroll", at("/enrollments", {"products": [OWN]})),
        Row("enroll", at("/enrollments", {"products": [FLEET]}), FLEET),
    ),
    "GET /enrollments": (Row("enroll", at("/enrollments"), ANY),),
    "DELETE /enrollments/{enrollment_id}": (
        Row("enroll", _invitation(OWN)),
        Row("enroll", _invitation(FLEET), FLEET),
    ),
    "GET /jobs/{job_id}/events": (Row("read", at("/jobs/{leased}/events"), machines="worker"),),
    "GET /jobs/{job_id}/events/stream": (
        Row("read", at("/jobs/{leased}/events/stream"), machines="worker"),
    ),
    "GET /events/stream": (Row("read", at("/events/stream"), ANY),),
    "GET /jobs/{job_id}/runs": (
        Row("read", at("/jobs/{leased}/runs"), machines="worker", agents=True),
    ),
    "GET /jobs/{job_id}/explain": (Row("read", at("/jobs/{leased}/explain"), machines="worker"),),
    "POST /jobs/{job_id}/logs": (Row(None, with_lease(_log), machines="worker"),),
    "GET /jobs/{job_id}/logs": (
        Row("read", at("/jobs/{leased}/logs"), machines="worker", agents=True),
    ),
    "POST /jobs/{job_id}/artifacts": (
        # A factory gets 422 for the missing epoch, whichever job it names.
        Row("artifacts", with_new_job(_upload({}), b"x"), refusals=REFUSED | {422}),
        Row(None, with_lease(_artifact), machines="worker"),
    ),
    "GET /jobs/{job_id}/artifacts": (
        Row("read", at("/jobs/{leased}/artifacts"), machines="worker"),
    ),
    "GET /jobs/{job_id}/diff": (Row("read", at("/jobs/{leased}/diff"), machines="worker"),),
    "GET /artifacts/{artifact_id}": (Row("read", at("/artifacts/{artifact}")),),
    "DELETE /artifacts/{artifact_id}": (Row("artifacts", _new_artifact),),
    "POST /artifacts/{artifact_id}/links": (
        Row("read", at("/artifacts/{artifact}/links", {"expiresIn": 60})),
    ),
    "POST /jobs/{job_id}/defects": (
        Row("defect", at("/jobs/{job}/defects", {"reference": "wrong"}), machines="any"),
    ),
    "GET /archive": (Row("read", at("/archive"), ANY),),
    "GET /archive/{job_id}": (Row("read", at("/archive/{archived}")),),
    "GET /reviews": (Row("read", at("/reviews"), ANY),),
    "POST /jobs/{job_id}/review": (
        Row("approve", with_new_job("/review", {"decision": "approve"})),
        Row("reject", with_new_job("/review", {"decision": "reject", "comment": "no"})),
    ),
    "POST /jobs/{job_id}/review/request": (
        Row("request-review", with_new_job("/review/request", {})),
    ),
    "POST /jobs/{job_id}/children": (
        Row("submit", at("/jobs/{composite}/children", {"jobs": [{"manifest": {}, "body": "x"}]})),
    ),
    "GET /jobs/{job_id}/dag": (
        Row("read", at("/jobs/{leased}/dag"), machines="worker", agents=True),
    ),
    "GET /profiles": (Row("read", at("/profiles"), ANY, "any"),),
    "POST /profiles": (Row("profiles", at("/profiles", {"name": "mine", "persona": "x"}), ANY),),
    "GET /profiles/{name}": (Row("read", at("/profiles/developer"), ANY),),
    "GET /profiles/{name}/{version}": (Row("read", at("/profiles/developer/1"), ANY),),
    "GET /products": (Row("read", at("/products"), ANY, "any"),),
    "GET /products/{product_id}": (Row("read", at("/products/notes"), machines="any"),),
    "PUT /products/{product_id}": (Row("products", at("/products/notes", PRODUCT)),),
    "GET /budgets/{product_id}": (Row("read", at("/budgets/notes"), machines="any"),),
    "PUT /budgets/{product_id}": (
        Row("budgets", at("/budgets/notes", {"ceilingUsd": "1000", "period": "month"})),
    ),
    "POST /budgets/{product_id}/pause": (Row("pause", at("/budgets/notes/pause", {})),),
    "POST /budgets/{product_id}/resume": (Row("pause", at("/budgets/notes/resume", {})),),
    "GET /budgets/{product_id}/burndown": (
        Row("read", at("/budgets/notes/burndown"), machines="any"),
    ),
    "GET /queue-state": (Row("read", at("/queue-state"), ANY, "any"),),
    "GET /attention": (Row("read", at("/attention"), ANY),),
    # Two operations share this path: the API's metrics, and those for Prometheus at the root.
    "GET /metrics": (
        Row("read", at("/metrics"), ANY, "any"),
        Row("read", at("//metrics"), FLEET),
    ),
    "GET /switches": (Row("read", at("/switches"), ANY, "any"),),
    "POST /halt": (
        Row("halt", at("/halt", {"product": OWN})),
        Row("halt", at("/halt", {}), FLEET),
    ),
    "POST /resume": (
        Row("halt", at("/resume", {"product": OWN})),
        Row("halt", at("/resume", {}), FLEET),
    ),
    "GET /insights": (Row("read", at("/insights"), ANY),),
    "GET /routing": (Row("read", at("/routing"), ANY),),
    "GET /routing/eval": (Row("read", at("/routing/eval"), ANY),),
    "PUT /routing/{product_id}": (Row("routing", at("/routing/notes", {"mode": "off"})),),
    "GET /scaling": (Row("read", at("/scaling"), ANY, "any"),),
    "GET /shadow": (Row("read", at("/shadow"), ANY),),
    "PUT /shadow/{product_id}": (Row("dispatch", at("/shadow/notes", {"mode": "pull"})),),
    "POST /tokens": (
        Row("tokens", at("/tokens", {"user": "new", "role": "admin", "products": [OWN]})),
        Row("tokens", at("/tokens", {"user": "new", "role": "viewer", "products": [FLEET]}), FLEET),
    ),
    "GET /tokens": (Row("tokens", at("/tokens"), ANY),),
    "DELETE /tokens/{token_id}": (Row("tokens", _new_token), Row("tokens", _fleet_token, FLEET)),
    "POST /jobs/{job_id}/token": (Row(None, with_lease(_leased("/token")), machines="worker"),),
    "POST /logins": (Row("read", at("/logins"), ANY),),
    "GET /audit": (Row("audit", at("/audit"), ANY),),
    "POST /tracker/ingest": (Row("submit", at("/tracker/ingest", TICKET), ANY),),
    "POST /tracker/echo": (Row("echo", _echo),),
}

SIGNED = {"POST /tracker/webhook"}
"""Operations that need the signature of a tracker instead of a token; tested with trackers."""


def operations() -> Iterator[str]:
    """Yield every operation of the OpenAPI description as `METHOD path`."""
    paths = describe(create_app(a_coordinator(Path())))["paths"]
    for path, methods in paths.items():
        for method in methods:
            yield f"{method.upper()} {path.removeprefix(API)}"


def test_every_operation_has_a_row() -> None:
    assert set(operations()) == ROWS.keys() | SIGNED


def test_every_route_is_described_or_a_page() -> None:
    app = create_application(a_coordinator(Path()))
    routes = {
        f"{method} {re.sub(r':[a-z]+}', '}', route.path).removeprefix(API)}"
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path not in {page.path for page in PAGES.routes}
        for handler in route.route_handlers
        for method in handler.http_methods
        if method != "OPTIONS"
    }
    assert routes == {*operations(), "GET /api/openapi.json"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TwoTenants]:
    """The two tenants, shared by all operations."""
    yield await TwoTenants(tmp_path_factory.mktemp("tenants")).build()


async def _sent(world: TwoTenants, caller: Caller, method: str, each: Try) -> int:
    secret = each.secret or world.secrets.get(caller)
    answer = await world.call_with(secret, caller, method, each.place, each.document)
    assert answer.status < 500, answer.text
    if isinstance(caller, Person | Machine | Agent) and caller.scope == OTHER:
        told = [name for name in world.own_names() if name in answer.text]
        # An error may repeat the id of its own request.
        assert answer.status >= 400 or not told, f"{caller} is told {told} by {each.place}"
    if each.place == "/reports" and answer.status == 200:
        return int(answer.json["results"][0]["status"])
    return answer.status


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("operation", sorted(ROWS))
async def test_an_operation_is_for_those_who_have_its_right(
    world: TwoTenants, operation: str
) -> None:
    method = operation.partition(" ")[0]
    for row in ROWS[operation]:
        refused = [caller for caller in CALLERS if not row.allows(caller)]
        prepared = await row.prepare(world, NOBODY) if refused else None
        before = await world.store.position()
        for caller in refused:
            assert prepared is not None
            status = await _sent(world, caller, method, prepared)
            assert status in row.refusals, f"{caller} got {status} for {method} {prepared.place}"
        assert await world.store.position() == before, "a refused call changed something"
        for caller in CALLERS:
            if row.allows(caller):
                each = await row.prepare(world, caller)
                status = await _sent(world, caller, method, each)
                assert status not in row.refusals, (
                    f"{caller} got {status} for {method} {each.place}"
                )
        if operation in {"POST /halt", "POST /budgets/{product_id}/pause"}:
            await world.coordinator.halt_switches.set_halted(SYSTEM, OWN, halted=False)
            await world.coordinator.halt_switches.set_halted(SYSTEM, None, halted=False)
            await world.coordinator.budgets.resume(SYSTEM, OWN)
