"""Responses from GitHub's API description: calls match it, and each refusal has a result."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from gigafactory.domain.job.job import Result
from gigafactory.domain.manifest.manifest import MergeStyle
from gigafactory.factory.forges.forge import (
    Checks,
    Forge,
    ForgeForbidden,
    ForgeRefused,
    ForgeUnavailable,
    MergedPull,
    PullRequest,
    PullRequestText,
    UnmergedPull,
)
from gigafactory.factory.forges.github import open_github
from gigafactory.factory.phases.ship import ship
from tests.support.factory.github_repo import GitHubRepo, RecordingTransport, ShippingRuns, forges

pytestmark = pytest.mark.service

COMMIT = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
HEAD, BASE = "aq/job/job-1", "main"
PULL = PullRequest(number=1347, url="https://example.com/1347", state="open", head=COMMIT)
WORDS = PullRequestText("Say hello", "As asked.")


class Demand(httpx.AsyncHTTPTransport):
    """A transport that requests a given status code for one HTTP method from the mock server."""

    def __init__(self, method: str = "", code: int = 200, *, to: str | None = None) -> None:
        super().__init__()
        self._method = method
        self._code = code
        self._to = httpx.URL(to) if to else None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The API description lists the plain media type only.
        request.headers["Accept"] = "application/json"
        if request.method != self._method:
            return await super().handle_async_request(request)
        request.headers["Prefer"] = f"code={self._code}"
        if self._to is not None:
            request.url = request.url.copy_with(port=self._to.port)
        return await super().handle_async_request(request)


@pytest_asyncio.fixture
async def forge(prism: str) -> AsyncIterator[Forge]:
    async with open_github(prism, "a-token", "me/notes", transport=Demand()) as found:
        yield found


async def test_every_call_matches_the_github_api_description(forge: Forge) -> None:
    assert await forge.default_branch() == "master"
    assert await forge.contains_commit(BASE, COMMIT)
    found = await forge.find_pull_request(HEAD, BASE)
    assert found is not None
    assert (found.number, found.head) == (1347, COMMIT)
    assert (await forge.open(HEAD, BASE, WORDS)).number == 1347
    assert isinstance(await forge.checks(BASE, COMMIT), Checks)
    assert await forge.comment(PULL, "<!-- aq:job-1:1 -->", "New.")
    styles: tuple[MergeStyle, ...] = ("merge", "squash", "ff")
    for style in styles:
        assert await forge.merge(PULL, BASE, COMMIT, style, WORDS) == MergedPull(COMMIT)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (405, "the forge refuses to merge it (Pull Request is not mergeable)"),
        (409, "the branch has changed meanwhile (Head branch was modified."),
        (422, "the forge refuses to merge it ("),
    ],
)
async def test_refused_merge_returns_the_reason(prism: str, code: int, words: str) -> None:
    async with open_github(prism, "a-token", "me/notes", transport=Demand("PUT", code)) as forge:
        done = await forge.merge(PULL, BASE, COMMIT, "merge", WORDS)
    assert isinstance(done, UnmergedPull)
    assert done.reason.startswith(words)
    assert not done.retry


@pytest.mark.parametrize("code", [409, 422])
async def test_refused_fast_forward_is_an_unmerged_pull(prism: str, code: int) -> None:
    async with open_github(prism, "a-token", "me/notes", transport=Demand("PATCH", code)) as forge:
        done = await forge.merge(PULL, BASE, COMMIT, "ff", WORDS)
    assert isinstance(done, UnmergedPull)
    assert "merge-style ff" in done.reason


@pytest.mark.parametrize(("code", "trouble"), [(403, ForgeForbidden), (404, ForgeRefused)])
async def test_merge_without_permission_raises_a_forge_error(
    prism: str, code: int, trouble: type[ForgeRefused]
) -> None:
    async with open_github(prism, "a-token", "me/notes", transport=Demand("PUT", code)) as forge:
        with pytest.raises(trouble, match=f"me/notes on 127.0.0.1.: {code}"):
            await forge.merge(PULL, BASE, COMMIT, "merge", WORDS)


async def test_open_returns_the_existing_pull_request(prism: str) -> None:
    async with open_github(prism, "a-token", "me/notes", transport=Demand("POST", 422)) as forge:
        assert (await forge.open(HEAD, BASE, WORDS)).number == 1347


async def test_server_error_is_forge_unavailable(prism: str) -> None:
    async with open_github(prism, "a-token", "me/notes", transport=Demand("GET", 503)) as forge:
        with pytest.raises(ForgeUnavailable, match="503"):
            await forge.contains_commit(BASE, COMMIT)


@pytest.mark.parametrize(
    ("code", "result", "words"),
    [
        (405, Result.MERGE_CONFLICT, "Pull Request is not mergeable"),
        (409, Result.MERGE_CONFLICT, "has changed meanwhile"),
        (403, Result.SETUP_FAILED, "the token lacks permission"),
        (404, Result.SETUP_FAILED, "the token has no access to it"),
    ],
)
async def test_refused_merge_ends_the_ship_and_leaves_the_base_unchanged(
    hub: GitHubRepo,
    work: str,
    desk: ShippingRuns,
    prism: str,
    code: int,
    result: Result,
    words: str,
) -> None:
    class Detour(RecordingTransport):
        """A transport that sends only the merge to the mock server."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PUT":
                async with Demand("PUT", code, to=prism) as described:
                    answer = await described.handle_async_request(request)
                    await answer.aread()
                    return answer
            return await super().handle_async_request(request)

    before = await hub.commit_of("main")
    run, reporter = desk.run(forges(hub, Detour()), commit=work)
    outcome = await ship(run)
    assert outcome is not None
    assert outcome.result is result
    assert words in outcome.reason
    assert reporter.intents == ["opens", "merges"]
    assert await hub.commit_of("main") == before
