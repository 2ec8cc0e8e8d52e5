"""The authorization matrix of the pages: every person who can sign in tries all of them.

Pages use the same verbs as the API. A page or form without a row fails the test. A refused form
must change nothing, and no page tells another product anything.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from litestar.routes import HTTPRoute

from gigafactory.domain.tenancy.access import Role
from gigafactory.web.routes import PAGES
from tests.support.api_server import SYSTEM
from tests.support.authorization import ANY, REFUSED, Prepare, Row, Try, at
from tests.support.two_tenants import FLEET, OTHER, OWN, PEOPLE, Caller, TwoTenants

JOB_FILE = "---\nname: {}\n---\nDo it."
PROFILE = "---\nname: mine\n---\nYou are careful."


def on_new_job(suffix: str, **form: str) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        return Try(f"/jobs/{await world.submit()}{suffix}", form)

    return prepare


def on_new_factory(verb: str, scope: str = OWN) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        name = f"spare-{await world.store.position()}"
        await world.factory(name, scope)
        return Try(f"/fleet/{name}/{verb}", {})

    return prepare


async def _bulk(world: TwoTenants, caller: Caller) -> Try:
    return Try("/jobs/actions", {"action": "promote", "jobs": await world.submit()})


async def _new_artifact(world: TwoTenants, caller: Caller) -> Try:
    return Try(f"/artifacts/{await world.attach(world.job)}/delete", {})


def _token(scope: str) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        made = await world.coordinator.tokens.issue(SYSTEM, "spare", Role.VIEWER, (scope,))
        return Try("/settings/tokens/revoke", {"token": made.token.id})

    return prepare


def _invitation(scope: str) -> Prepare:
    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        made = await world.coordinator.enrolment.invite(SYSTEM, (scope,))
        return Try(f"/fleet/enrollments/{made.id}/withdraw", {})

    return prepare


async def _submit(world: TwoTenants, caller: Caller) -> Try:
    return Try("/new", {"text": JOB_FILE.format(f"page-{await world.store.position()}")})


async def _add_child(world: TwoTenants, caller: Caller) -> Try:
    text = JOB_FILE.format(f"part-{await world.store.position()}")
    return Try(f"/jobs/{world.composite}/children", {"text": text})


FACTORY_VERBS = {
    "drain": "drain",
    "resume": "drain",
    "rotate": "enroll",
    "revoke": "enroll",
    "deregister": "deregister",
}
ROWS: dict[str, tuple[Row, ...]] = {
    # A bulk action lists its refusals on a page with status 409.
    "/jobs/actions": (Row("promote", _bulk, refusals=REFUSED | {409}),),
    "/jobs/{job_id:str}/actions/{action:str}": (
        Row("promote", on_new_job("/actions/promote")),
        Row("approve", on_new_job("/actions/approve")),
        Row("cancel", on_new_job("/actions/cancel")),
    ),
    "/jobs/{job_id:str}/defects": (Row("defect", at("/jobs/{job}/defects", {"words": "wrong"})),),
    "/jobs/{job_id:str}/artifacts": (
        Row("artifacts", at("/jobs/{job}/artifacts?name=page.txt", b"x")),
    ),
    "/artifacts/{artifact_id:str}/share": (Row("read", at("/artifacts/{artifact}/share", {})),),
    "/artifacts/{artifact_id:str}/delete": (Row("artifacts", _new_artifact),),
    "/new": (Row("submit", _submit, ANY),),
    # A check stores nothing, so it needs only `read`; it reports a refusal as its result.
    "/new/check": (Row("read", at("/new/check", {"text": JOB_FILE.format("x")}), ANY),),
    "/jobs/{job_id:str}/children": (Row("submit", _add_child),),
    "/jobs/{job_id:str}/children/check": (
        Row("submit", at("/jobs/{composite}/children/check", {"text": JOB_FILE.format("y")})),
    ),
    "/product": (Row("read", at("/product", {"product": OWN})),),
    "/budget/{product_id:str}": (Row("budgets", at("/budget/notes", {"ceiling": "1000"})),),
    "/budget/{product_id:str}/pause": (Row("pause", at("/budget/notes/pause", {})),),
    "/budget/{product_id:str}/resume": (Row("pause", at("/budget/notes/resume", {})),),
    "/insights/routing/{product_id:str}": (
        Row("routing", at("/insights/routing/notes", {"mode": "off"})),
    ),
    "/settings/products": (Row("products", at("/settings/products", {"product": OWN})),),
    "/settings/dispatch": (
        Row("dispatch", at("/settings/dispatch", {"product": OWN, "mode": "pull"})),
    ),
    "/settings/tokens": (
        Row("tokens", at("/settings/tokens", {"user": "new", "role": "viewer"}), ANY),
    ),
    "/settings/tokens/revoke": (Row("tokens", _token(OWN)), Row("tokens", _token(FLEET), FLEET)),
    "/settings/profiles": (Row("profiles", at("/settings/profiles", {"text": PROFILE}), ANY),),
    "/settings/profile-check": (
        Row("read", at("/settings/profile-check", {"text": PROFILE}), ANY),
    ),
    "/fleet/enroll": (Row("enroll", at("/fleet/enroll", {}), ANY),),
    "/fleet/enrollments/{enrollment_id:str}/withdraw": (
        Row("enroll", _invitation(OWN)),
        Row("enroll", _invitation(FLEET), FLEET),
    ),
    "/fleet/{factory_id:str}/{verb:str}": tuple(
        Row(verb, on_new_factory(name, scope), scope)
        for name, verb in FACTORY_VERBS.items()
        for scope in (OWN, FLEET)
    ),
    "/halt": (
        Row("halt", at("/halt", {"product": OWN})),
        Row("halt", at("/halt", {"product": FLEET}), FLEET),
    ),
    "/resume": (
        Row("halt", at("/resume", {"product": OWN})),
        Row("halt", at("/resume", {"product": FLEET}), FLEET),
    ),
}
SIGNING = {"/login", "/logout"}
"""Forms that start and end a session; tested in `test_signing_in.py`."""
JOB = "/jobs/{job_id:str}"
PAGE_ROWS: dict[str, Row] = {
    **{
        place: Row("read", at(place), ANY)
        for place in (
            *("/", "/jobs", "/new", "/budget", "/insights", "/settings", "/fleet"),
            *("/live/home", "/live/jobs", "/live/budget", "/live/fleet", "/live/whoami"),
        )
    },
    **{place: Row("audit", at(place), ANY) for place in ("/audit", "/live/audit")},
    **{
        place: Row("read", at(place.replace("{job_id:str}", "{leased}")))
        for place in (
            *(JOB, f"{JOB}/diff", f"{JOB}/log.txt", f"{JOB}/roadmap"),
            *(f"/live{JOB}", f"/live{JOB}/log", f"/live{JOB}/roadmap"),
        )
    },
    "/settings/profiles": Row("profiles", at("/settings/profiles"), ANY),
    f"{JOB}/children": Row("submit", at("/jobs/{composite}/children")),
    "/artifacts/{artifact_id:str}": Row("read", at("/artifacts/{artifact}")),
    "/artifacts/{artifact_id:str}/text": Row("read", at("/artifacts/{artifact}/text")),
    "/settings/profiles/{name:str}": Row("read", at("/settings/profiles/qa"), ANY),
}
FOR_ALL = {"/login", "/icon.svg", "/static/{version:str}/{name:str}"}


def _routes(method: str) -> set[str]:
    return {
        route.path
        for route in PAGES.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        if method in handler.http_methods
    }


def test_every_form_and_page_has_a_row() -> None:
    assert _routes("POST") == ROWS.keys() | SIGNING
    assert _routes("GET") == PAGE_ROWS.keys() | FOR_ALL


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TwoTenants]:
    """The two tenants, with a browser signed in for every person."""
    made = await TwoTenants(tmp_path_factory.mktemp("tenants")).build()
    for person in PEOPLE:
        await made.sign_in(person)
    yield made


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("form", sorted(ROWS))
async def test_a_form_is_for_those_who_have_its_right(world: TwoTenants, form: str) -> None:
    for row in ROWS[form]:
        prepared = await row.prepare(world, PEOPLE[0])
        before = await world.store.position()
        for person in (None, *PEOPLE):
            if person is None or not row.allows(person):
                response = await world.send_form(person, prepared.place, prepared.document)
                why = f"{person} got {response.status} from {prepared.place}"
                assert response.status in row.refusals, why
        assert await world.store.position() == before, "a refused form changed something"
        for person in filter(row.allows, PEOPLE):
            each = await row.prepare(world, person)
            response = await world.send_form(person, each.place, each.document)
            why = f"{person} got {response.status} from {each.place}"
            assert response.status not in row.refusals, why
            assert response.status < 500, response.text


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("page", sorted(PAGE_ROWS))
async def test_a_page_is_for_those_who_have_its_right(world: TwoTenants, page: str) -> None:
    row = PAGE_ROWS[page]
    place = (await row.prepare(world, PEOPLE[0])).place
    for person in (None, *PEOPLE):
        response = await world.open_page(person, place)
        why = f"{person} got {response.status} from {place}: {response.text}"
        if person is None or not row.allows(person):
            assert response.status in row.refusals, why
        else:
            assert response.status < 300, why
        if person is not None and person.scope == OTHER and response.status < 300:
            assert not [name for name in world.own_names() if name in response.text], why
