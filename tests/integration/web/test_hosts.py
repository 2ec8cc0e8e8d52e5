"""Host names: the pages have a private one of their own, and other names are refused."""

from pathlib import Path

import httpx
import pytest

from gigafactory.api.http.hosts import LOOPBACK, ServedHosts
from gigafactory.config.settings import ServerSettings
from gigafactory.server.hosts import ensure_pages_host, served_hosts
from tests.support.api_server import PAGES_HOST, Server, a_server
from tests.support.web_session import a_visitor

HTML = {"accept": "text/html"}
PAGES = ("/", "/login", "/jobs", "/live/home", "/static/x/main.js", "/no/such/page")
ON_LOOPBACK = served_hosts(ServerSettings(), PAGES_HOST)
ON_ALL = served_hosts(ServerSettings(host="::"), PAGES_HOST)
PUBLIC = served_hosts(ServerSettings(public_url="https://fleet.example.com"), PAGES_HOST)


async def get(server: Server, path: str, host: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url) as http:
        return await http.get(path, headers={"host": host, **headers})


async def test_pages_are_not_served_under_the_names_of_the_machine(tmp_path: Path) -> None:
    async with a_server(tmp_path, hosts=ON_LOOPBACK) as server:
        for host in ("127.0.0.1", "localhost", "[::1]", "127.0.0.1:8790", "LOCALHOST"):
            for path in PAGES:
                for accept in ("text/html", "*/*"):
                    answer = await get(server, path, host, accept=accept)
                    assert answer.status_code == 421
                    assert PAGES_HOST not in answer.text + str(answer.headers)
                    assert "set-cookie" not in answer.headers
                    assert "aq login" in answer.text
            assert (await get(server, "/healthz", host)).status_code == 200
            assert (await get(server, "/api/fleet/jobs", host)).status_code == 401


async def test_a_browser_at_another_name_gets_a_page_that_says_what_to_do(tmp_path: Path) -> None:
    async with a_server(tmp_path, hosts=ON_LOOPBACK) as server:
        for host in ("127.0.0.1", "localhost", "gigafactory.localhost", "evil.test"):
            answer = await get(server, "/", host, **HTML)
            assert answer.status_code == 421
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")
            assert "<h1>The web pages have another address</h1>" in answer.text
            assert host not in answer.text


async def test_session_is_neither_given_nor_taken_elsewhere(tmp_path: Path) -> None:
    async with a_server(tmp_path, hosts=ON_LOOPBACK) as server, a_visitor(server) as ann:
        cookies = {"gf_session": ann.http.cookies["gf_session"]}
        async with httpx.AsyncClient(base_url=server.url, cookies=cookies) as http:
            assert (await http.get("/live/whoami")).status_code == 421
            signed = await http.post("/login", data={"token": server.admin_token})
            assert signed.status_code == 421
            assert "set-cookie" not in signed.headers


@pytest.mark.parametrize(
    "host",
    [
        *("evil.test", "gigafactory.localhost", f"x.{PAGES_HOST}", f"{PAGES_HOST}.evil.test"),
        *(f"{PAGES_HOST}@evil.test", "", "127.0.0.1.evil.test", "127.0.0.1:8790:80"),
    ],
)
async def test_a_name_that_is_not_ours_gets_nothing(tmp_path: Path, host: str) -> None:
    async with a_server(tmp_path, hosts=ON_LOOPBACK) as server:
        for path in ("/", "/healthz", "/api/fleet/jobs"):
            answer = await get(server, path, host)
            assert answer.status_code in {400, 421}
            assert PAGES_HOST not in answer.text


async def test_public_url_is_the_only_place_of_the_pages(tmp_path: Path) -> None:
    async with a_server(tmp_path, hosts=PUBLIC) as server, server.client() as admin:
        assert (await get(server, "/login", "fleet.example.com")).status_code == 200
        moved = await get(server, "/jobs?stage=review", "127.0.0.1", accept="text/html")
        assert moved.status_code == 307
        assert moved.headers["location"] == "https://fleet.example.com/jobs?stage=review"
        assert (await get(server, "/login", PAGES_HOST)).status_code == 421
        made = (await admin.post("/logins")).json()
        assert made["url"] == f"https://fleet.example.com/login?code={made['code']}"
        async with httpx.AsyncClient(
            base_url=server.url, headers={"host": "fleet.example.com"}
        ) as http:
            entered = await http.post("/login", data={"token": server.admin_token})
        assert entered.headers["set-cookie"].startswith("__Host-gf_session=")
        assert "Secure" in entered.headers["set-cookie"]


@pytest.mark.parametrize(
    ("host", "served"),
    [
        *(("fleet.lan", True), ("fleet.lan:8790", True), (PAGES_HOST, True)),
        *(("192.168.1.5", False), ("127.0.0.1", False), ("localhost", False), ("[fe80::1]", False)),
        *(("gigafactory.localhost", False), ("localhost.", False), ("127.1", False), ("", False)),
        *(("0x7f000001", False), ("127.0.0.1.", False)),
    ],
)
async def test_without_a_name_in_the_settings_any_name_but_no_address_has_pages(
    tmp_path: Path,
    host: str,
    served: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with a_server(tmp_path, hosts=ON_ALL) as server:
        assert ((await get(server, "/login", host)).status_code == 200) is served


def test_named_hosts_have_pages() -> None:
    hosts = served_hosts(ServerSettings(hosts=("Fleet.lan", "localhost")), PAGES_HOST)
    assert hosts.serves_pages("fleet.lan")
    assert hosts.serves_pages(PAGES_HOST)
    assert not hosts.serves_pages("localhost")
    assert not hosts.serves("other.lan")
    assert hosts.accepted == LOOPBACK | {"fleet.lan"}


def test_name_of_the_pages_is_private_and_stays(tmp_path: Path) -> None:
    name = ensure_pages_host(tmp_path)
    assert ensure_pages_host(tmp_path) == name
    assert (tmp_path / "pages.host").stat().st_mode & 0o077 == 0
    (tmp_path / "pages.host").write_text("gigafactory.localhost\n")
    assert ensure_pages_host(tmp_path) not in {"gigafactory.localhost", name}


def test_programs_are_given_an_address_that_they_can_resolve() -> None:
    hosts = ServedHosts(pages=frozenset({PAGES_HOST}), local=PAGES_HOST)
    assert hosts.api_url("http", f"{PAGES_HOST}:8790") == "http://127.0.0.1:8790"
    assert hosts.api_url("http", "fleet.lan:8790") == "http://fleet.lan:8790"
    assert hosts.pages_url("http", "127.0.0.1:8790") == f"http://{PAGES_HOST}:8790"
    assert hosts.pages_url("http", "fleet.lan:8790") == "http://fleet.lan:8790"


@pytest.mark.parametrize("url", ["fleet.example.com", "https://a/b", "https://a/", "ftp://a", ""])
def test_public_url_is_scheme_and_host(url: str) -> None:
    with pytest.raises(ValueError, match=r"server\.public-url"):
        ServerSettings(public_url=url)
