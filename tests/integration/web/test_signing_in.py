"""Signing in by link or token, cookies, and signing out."""

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import SYSTEM, a_server
from tests.support.factory.local_fleet import Clock
from tests.support.web_session import a_visitor, an_anonymous_browser


async def code_of(admin: httpx.AsyncClient) -> str:
    made = await admin.post("/logins")
    assert made.status_code == 201, made.text
    code: str = made.json()["code"]
    return code


async def test_login_link_works_once(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin:
        code = await code_of(admin)
        async with an_anonymous_browser(server) as first, an_anonymous_browser(server) as second:
            looked = await first.get("/login", params={"code": code})
            assert looked.status_code == 200
            entered = await first.post("/login", data={"code": code})
            assert (entered.status_code, entered.headers["location"]) == (303, "/")
            assert (await first.get("/")).status_code == 200
            again = await second.post("/login", data={"code": code})
            assert again.status_code == 401
            assert "was used or has expired" in again.text


async def test_login_link_expires_after_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    async with a_server(tmp_path, clock=clock) as server, server.client() as admin:
        code = await code_of(admin)
        clock.advance(timedelta(minutes=11))
        async with an_anonymous_browser(server) as http:
            assert (await http.post("/login", data={"code": code})).status_code == 401


async def test_cookie_is_http_only_and_not_the_token(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, an_anonymous_browser(server) as http:
        secret = await server.token("ann", Role.REVIEWER)
        answer = await http.post("/login", data={"token": secret})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert secret not in cookie
        assert http.cookies["gf_session"].startswith("gfl_")


async def test_cookie_is_secure_behind_tls(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, an_anonymous_browser(server) as http:
        secret = await server.token("ann")
        proxied = {"x-forwarded-proto": "https"}
        answer = await http.post("/login", data={"token": secret}, headers=proxied)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-gf_session=gfl_")
        assert "Secure" in cookie
        assert "Path=/;" in cookie
        assert "domain" not in cookie.lower()
        named = {"cookie": cookie.partition(";")[0]}
        assert (await http.get("/live/whoami", headers=named | proxied)).status_code == 204
        plain = {"cookie": named["cookie"].removeprefix("__Host-")}
        assert (await http.get("/live/whoami", headers=plain | proxied)).status_code == 401


async def test_revoking_a_token_ends_its_sessions(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin, a_visitor(server) as ann:
        await ann.page("/")
        tokens = (await admin.get("/tokens")).json()["tokens"]
        [own] = [t["id"] for t in tokens if (t["user"], t["kind"]) == ("ann", "operator")]
        assert (await admin.delete(f"/tokens/{own}")).status_code == 200
        gone = await ann.http.get("/", headers={"accept": "text/html"})
        assert (gone.status_code, gone.headers["location"]) == (303, "/login?ended=yes")
        assert "You are signed out" in await ann.page("/login?ended=yes")


async def test_a_session_ends_with_the_token_that_started_it(tmp_path: Path) -> None:
    clock = Clock()
    async with a_server(tmp_path, clock=clock) as server, an_anonymous_browser(server) as http:
        tokens = server.coordinator.tokens
        made = await tokens.issue(SYSTEM, "ann", Role.ADMIN, ("*",), lasts=timedelta(hours=1))
        assert (await http.post("/login", data={"token": made.secret})).status_code == 303
        assert (await http.get("/live/whoami")).status_code == 204
        clock.advance(timedelta(hours=2))
        assert (await http.get("/live/whoami")).status_code == 401


async def test_login_link_is_invalid_after_its_token_is_revoked(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin:
        secret = await server.token("bob", Role.OPERATOR)
        async with server.client(secret) as bob, an_anonymous_browser(server) as http:
            code = await code_of(bob)
            tokens = (await admin.get("/tokens")).json()["tokens"]
            [own] = [t["id"] for t in tokens if t["user"] == "bob"]
            await admin.delete(f"/tokens/{own}")
            assert (await http.post("/login", data={"code": code})).status_code == 401


async def test_signing_out_invalidates_the_cookie(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, a_visitor(server) as ann:
        stolen = dict(ann.http.cookies)
        out = await ann.send("/logout")
        assert (out.status_code, out.headers["location"]) == (303, "/login")
        async with server.browser(cookies=stolen) as thief:
            assert (await thief.get("/live/whoami")).status_code == 401


@pytest.mark.parametrize("given", [{"token": "gfo_wrong"}, {"code": "wrong"}, {}, {"token": " "}])
async def test_invalid_login_shows_an_error(tmp_path: Path, given: dict[str, str]) -> None:
    async with a_server(tmp_path) as server, an_anonymous_browser(server) as http:
        answer = await http.post("/login", data=given)
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text


async def test_factory_token_cannot_sign_in(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, an_anonymous_browser(server) as http:
        token = await server.factory_token("mac-1")
        assert (await http.post("/login", data={"token": token})).status_code == 403
        async with server.client(token, product=None) as factory:
            assert (await factory.post("/logins")).status_code == 403


async def test_session_is_not_a_bearer_token(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path) as server,
        a_visitor(server) as ann,
        server.client(ann.http.cookies["gf_session"]) as scripted,
    ):
        for path in ("/jobs", "/tokens", "/events/stream"):
            assert (await scripted.get(path)).status_code == 401
        assert (await scripted.post("/logins")).status_code == 401
        assert (await scripted.get(f"{server.url}/metrics")).status_code in {200, 401}
        assert (await ann.http.get("/live/whoami")).status_code == 204


async def test_cookie_is_not_accepted_by_the_api(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, a_visitor(server) as ann:
        assert (await ann.http.get("/api/fleet/jobs")).status_code == 401
        assert (await ann.http.post("/api/fleet/logins")).status_code == 401


async def test_two_session_cookies_are_no_session(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, a_visitor(server) as ann, a_visitor(server) as eve:
        own, tossed = (f"gf_session={who.http.cookies['gf_session']}" for who in (ann, eve))
        for cookie in (f"{own}; {tossed}", f"{tossed}; {own}"):
            answer = await ann.http.get("/live/whoami", headers={"cookie": cookie})
            assert answer.status_code == 401


async def test_login_url_of_the_api_opens_the_pages(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin:
        made = (await admin.post("/logins")).json()
        assert made["url"] == f"{server.pages}/login?code={made['code']}"


async def test_failed_logins_are_rate_limited(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, an_anonymous_browser(server) as http:
        codes = [
            (await http.post("/login", data={"token": f"gfo_{n}"})).status_code for n in range(30)
        ]
        assert codes[-1] == 429
