"""Requests to GitHub: addresses, redirects without the token, and unexpected responses."""

import httpx
import pytest

from gigafactory.factory.forges.forge import ForgeRefused, ForgeUnavailable, PullRequestText
from gigafactory.factory.forges.github import open_github

WORDS = PullRequestText("Say hello", "")
REPO = {"default_branch": "main"}


class Listener(httpx.AsyncBaseTransport):
    """A fake network that responds according to the path."""

    def __init__(self, **answers: httpx.Response) -> None:
        self.asked: list[httpx.Request] = []
        self._answers = answers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self._answers[request.url.path.rpartition("/")[2]]


@pytest.mark.parametrize(
    ("api", "url"),
    [
        ("https://api.github.com", "https://api.github.com/repos/me/notes"),
        ("https://git.acme.com/api/v3/", "https://git.acme.com/api/v3/repos/me/notes"),
    ],
)
async def test_repo_url_is_below_the_api_address(api: str, url: str) -> None:
    listener = Listener(notes=httpx.Response(200, json=REPO))
    async with open_github(api, "a-token", "me/notes", transport=listener) as forge:
        assert await forge.default_branch() == "main"
    [asked] = listener.asked
    assert str(asked.url) == url
    assert asked.headers["Authorization"] == "Bearer a-token"


async def test_redirect_of_a_renamed_repo_is_followed_without_the_token() -> None:
    moved = httpx.Response(301, headers={"Location": "https://elsewhere.example.com/renamed"})
    listener = Listener(notes=moved, renamed=httpx.Response(200, json=REPO))
    async with open_github(
        "https://x.example.com", "a-token", "me/notes", transport=listener
    ) as forge:
        assert await forge.default_branch() == "main"
    assert ["Authorization" in asked.headers for asked in listener.asked] == [True, False]


async def test_redirect_of_a_write_is_not_followed() -> None:
    moved = httpx.Response(307, headers={"Location": "https://x.example.com/renamed"})
    listener = Listener(pulls=moved)
    async with open_github(
        "https://x.example.com", "a-token", "me/notes", transport=listener
    ) as forge:
        with pytest.raises(ForgeRefused, match="307"):
            await forge.open("work", "main", WORDS)
    assert len(listener.asked) == 1


async def test_branch_names_are_escaped_in_the_path() -> None:
    listener = Listener()
    async with open_github(
        "https://x.example.com", "a-token", "me/notes", transport=listener
    ) as forge:
        with pytest.raises(KeyError):
            await forge.contains_commit("a?b#c/d", "f" * 40)
    [asked] = listener.asked
    assert asked.url.path.startswith("/repos/me/notes/compare/a?b#c/d...")


async def test_proxy_page_instead_of_json_is_rejected() -> None:
    listener = Listener(notes=httpx.Response(200, html="<p>Log in first</p>"))
    async with open_github(
        "https://x.example.com", "a-token", "me/notes", transport=listener
    ) as forge:
        with pytest.raises(ForgeRefused, match="does not match GitHub"):
            await forge.default_branch()


async def test_bad_gateway_is_reported_as_unavailable() -> None:
    listener = Listener(notes=httpx.Response(502, html="<p>Bad gateway</p>"))
    async with open_github(
        "https://x.example.com", "a-token", "me/notes", transport=listener
    ) as forge:
        with pytest.raises(ForgeUnavailable, match="502"):
            await forge.default_branch()
