"""Security of the pages: CSRF, escaping, content policy, error pages."""

import re
from collections.abc import AsyncIterator, Sequence
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gigafactory.coordinator.core.ports import PAGE_MAX, AnyRecord, JobQuery
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.job import Job
from gigafactory.domain.tenancy.access import Role
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import Server, a_server
from tests.support.web_session import Visitor, a_visitor, an_anonymous_browser

PAGES = (
    *("/", "/jobs", "/jobs?view=board", "/jobs/one", "/fleet", "/login", "/jobs/nobody"),
    *(
        "/new",
        "/budget",
        "/insights",
        "/settings",
        "/audit",
        "/settings/profiles/qa",
        "/jobs/one/diff",
    ),
)
EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'


class Tags(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    @staticmethod
    def of(text: str) -> list[tuple[str, dict[str, str]]]:
        """Return the elements of a page."""
        tags = Tags()
        tags.feed(text)
        return tags.found


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with a_server(tmp_path) as made, made.client(product="default") as admin:
        document = {"manifest": {"name": "one", "title": EVIL}, "body": f"# {EVIL}\n"}
        assert (await admin.post("/jobs", json=document)).status_code == 201
        yield made


async def test_pages_run_only_their_own_scripts(ann: Visitor) -> None:
    for place in PAGES:
        answer = await ann.http.get(place, headers={"accept": "text/html"})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        only_ours(answer.text)


def only_ours(text: str) -> None:
    """Check that a page has no inline code and loads nothing from other origins."""
    for tag, attributes in Tags.of(text):
        assert tag != "style"
        assert tag != "script" or attributes["src"].startswith("/static/")
        assert not {name for name in attributes if name.startswith("on")} | (
            {"style"} & {*attributes}
        )
        for name in ("src", "href", "action", "formaction"):
            assert attributes.get(name, "/").startswith(("/", "#")), attributes
            assert not attributes.get(name, "/").startswith("//"), attributes


async def test_user_text_is_escaped(ann: Visitor) -> None:
    for place in ("/", "/jobs", "/jobs/one"):
        text = await ann.page(place)
        assert "&lt;script&gt;alert(1)" in text
        assert "<img src=x" not in text


async def test_cross_site_form_is_refused(server: Server, ann: Visitor) -> None:
    form = {"csrf": await ann.csrf()}
    for headers in (
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        answer = await ann.http.post("/jobs/one/actions/cancel", data=form, headers=headers)
        assert answer.status_code == 403
        async with server.client(product="default") as admin:
            assert (await admin.get("/jobs/one")).json()["stage"] == "queued"
        login = await ann.http.post("/login", data={"token": "x"}, headers=headers)
        assert login.status_code == 403


async def test_form_without_csrf_token_is_refused(ann: Visitor) -> None:
    for csrf in ("", "0" * 64):
        answer = await ann.http.post("/jobs/one/actions/cancel", data={"csrf": csrf})
        assert answer.status_code == 403
        assert "reload the page" in answer.text


async def test_viewer_can_see_but_not_act(server: Server) -> None:
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert "/actions/" not in await vera.page("/jobs/one")
        assert "Drain" not in await vera.page("/fleet")
        refused = await vera.send("/jobs/one/actions/cancel")
        assert refused.status_code == 403
        assert "cancel needs one of" in refused.text


async def test_program_token_is_not_accepted_as_cookie(server: Server) -> None:
    for secret in (server.admin_token, await server.factory_token("mac-1")):
        async with server.browser(cookies={"gf_session": secret}) as http:
            assert (await http.get("/live/whoami")).status_code == 401


async def test_page_redirects_to_login_and_stream_is_unauthorized(server: Server) -> None:
    async with a_visitor(server) as visitor:
        visitor.http.cookies.clear()
        asked = await visitor.http.get("/jobs", headers={"accept": "text/html"})
        assert (asked.status_code, asked.headers["location"]) == (303, "/login")
        assert (await visitor.http.get("/live/home")).status_code == 401


async def test_unknown_job_is_an_error_page(ann: Visitor) -> None:
    assert "there is no job" in await ann.page("/jobs/nobody", 404)


async def test_static_files_are_immutable_and_compressed(ann: Visitor) -> None:
    found = re.search(r'href="(/static/[^"]+style.css)"', await ann.page("/"))
    assert found is not None
    style = await ann.http.get(found[1])
    assert "immutable" in style.headers["cache-control"]
    assert style.headers["content-encoding"] == "gzip"
    assert (await ann.http.get("/static/x/../secrets.py")).status_code == 404


async def test_home_page_is_small(ann: Visitor) -> None:
    text = await ann.page("/")
    names = {each.name for each in (files("gigafactory.web") / "static").iterdir()}
    assert {"main.js", "style.css"} <= names
    version = re.search(r"/static/([0-9a-f]+)/", text)
    assert version is not None
    total = len(text.encode())
    for name in names:
        async with ann.http.stream("GET", f"/static/{version[1]}/{name}") as answer:
            assert answer.status_code == 200
            total += sum([len(piece) async for piece in answer.aiter_raw()])
    assert total < 150_000


async def test_unknown_url_is_a_page_for_browsers_and_a_problem_for_programs(
    server: Server, ann: Visitor
) -> None:
    text = await ann.page("/no/such/<b>page", 404)
    assert "There is no page at /no/such/&lt;b&gt;page" in text
    assert 'href="/jobs"' in text
    assert 'class="bar"' in text
    for place, accept in (("/no/such", "application/json"), ("/api/fleet/none", "text/html")):
        response = await ann.http.get(place, headers={"accept": accept})
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
    async with server.client() as admin:
        assert (await admin.get("/none")).headers["content-type"] == "application/problem+json"


async def test_unsupported_method_is_an_error_page(ann: Visitor) -> None:
    answer = await ann.http.delete("/jobs", headers={"accept": "text/html"})
    assert answer.status_code == 405
    assert "/jobs does not support the method DELETE" in answer.text
    response = await ann.http.delete("/jobs")
    assert response.json()["code"] == "method_not_allowed"


async def test_internal_error_is_a_page_for_browsers_and_a_problem_for_programs(
    server: Server, ann: Visitor
) -> None:
    # Without its coordinator, a page fails like it would with any internal error.
    server.app.state.coordinator = None
    answer = await ann.http.get("/insights", headers={"accept": "text/html"})
    assert answer.status_code == 500
    assert "Internal error" in answer.text
    assert answer.headers["x-request-id"] in answer.text
    assert "Traceback" not in answer.text
    assert (await ann.http.get("/insights")).json()["code"] == "internal"


class LeavingStore(MemoryStore):
    """A store that can be unavailable for everything but authentication."""

    away = False

    def _require(self) -> None:
        if self.away:
            raise Unavailable("the store is unavailable")

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        self._require()
        return await super().find_jobs(query)

    async def job(self, job_id: str) -> Job | None:
        self._require()
        return await super().job(job_id)

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        self._require()
        return await super().records(of, prefix=prefix, after=after, limit=limit)


async def test_pages_report_a_store_outage(tmp_path: Path) -> None:
    store = LeavingStore()
    async with a_server(tmp_path, store=store) as server, a_visitor(server) as ann:
        async with server.client() as admin:
            made = await admin.post("/jobs", json={"manifest": {"name": "one"}, "body": "# One"})
        job = f"/jobs/{made.json()['id']}"
        store.away = True
        for place in (
            *("/", "/jobs", "/jobs?view=board", "/fleet", "/budget", "/insights", "/settings"),
            *(job, f"{job}/diff", f"{job}/roadmap"),
        ):
            text = await ann.page(place, 503)
            assert "Temporarily unavailable" in text, place
            assert "the store is unavailable" in text, place
        store.away = False
        await ann.page(job)


@pytest.mark.parametrize(
    "back", ["/jobs\r\nset-cookie: x=y", "/jobs?q=€", "/jobs?q=\x00", "//evil"]
)
async def test_a_form_returns_to_whatever_page_it_names_or_to_the_list(
    ann: Visitor, admin: httpx.AsyncClient, back: str
) -> None:
    job = (await admin.post("/jobs", json={"manifest": {"name": "one"}, "body": "x"})).json()
    answer = await ann.send("/jobs/actions", back=back, action="cancel", jobs=job["id"])
    assert answer.status_code in {303, 422}, answer.text
    assert "set-cookie" not in answer.headers
    assert not answer.headers.get("location", "").startswith("//")


async def test_login_form_of_a_stranger_is_small(server: Server) -> None:
    async with an_anonymous_browser(server) as browser:
        answer = await browser.post("/login", data={"token": "é" * 10_000})
        assert answer.status_code == 413
