"""Responses about issues from GitHub's API description: every call matches it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from gigafactory.domain.errors import NotFound, TrackerRefused, TrackerUnavailable
from gigafactory.domain.tracker.ticket import Ticket
from gigafactory.trackers.github_issues import GithubIssues, open_issues

pytestmark = pytest.mark.service

ISSUE = Ticket(id="me/notes#1347", title="Found a bug", labels=("bug", "fleet:queued"))


class Demand(httpx.AsyncHTTPTransport):
    """A transport that requests a given status code for one HTTP method from the mock server."""

    def __init__(self, method: str = "", code: int = 200) -> None:
        super().__init__()
        self._method = method
        self._code = code

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The API description lists the plain media type only.
        request.headers["Accept"] = "application/json"
        if request.method == self._method:
            request.headers["Prefer"] = f"code={self._code}"
        return await super().handle_async_request(request)


@pytest_asyncio.fixture
async def issues(prism: str) -> AsyncIterator[GithubIssues]:
    async with open_issues(prism, "a-token", "me/notes", agent="octocat", transport=Demand()) as it:
        yield it


async def test_every_call_matches_the_github_api_description(issues: GithubIssues) -> None:
    found = await issues.item("#1347")
    assert found is None, "the example is a pull request, which is no ticket"
    await issues.items_for_agents()
    await issues.update(ISSUE, "done", ("bug", "fleet:shipped"))
    assert await issues.comment("1347", "Shipped.", "<!-- aq:job-1:echo:4 -->")


@pytest.mark.parametrize("code", [404, 410])
async def test_deleted_issue_returns_none(prism: str, code: int) -> None:
    demand = Demand("GET", code)
    async with open_issues(prism, "a-token", "me/notes", agent="a", transport=demand) as issues:
        assert await issues.item("7") is None


@pytest.mark.parametrize(
    ("method", "code", "trouble"),
    [
        ("POST", 410, TrackerRefused),
        ("POST", 403, TrackerUnavailable),
        ("POST", 422, TrackerRefused),
    ],
)
async def test_refused_comment_differs_from_an_unavailable_tracker(
    prism: str, method: str, code: int, trouble: type[Exception]
) -> None:
    demand = Demand(method, code)
    async with open_issues(prism, "a-token", "me/notes", agent="a", transport=demand) as issues:
        with pytest.raises(trouble, match=str(code)):
            await issues.comment("7", "Shipped.", "<!-- never there -->")


async def test_server_error_is_tracker_unavailable(prism: str) -> None:
    demand = Demand("PATCH", 503)
    async with open_issues(prism, "a-token", "me/notes", agent="a", transport=demand) as issues:
        with pytest.raises(TrackerUnavailable, match="503"):
            await issues.update(ISSUE, "done", ISSUE.labels)


@pytest.mark.parametrize("strange", ["seven", "other/repo#7", "../7", "7/comments", "", "#"])
async def test_invalid_issue_reference_is_not_requested(issues: GithubIssues, strange: str) -> None:
    with pytest.raises(NotFound, match="me/notes#7"):
        await issues.item(strange)
