"""The forge adapter for GitHub and GitHub Enterprise, over their REST API."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import quote

import httpx

from gigafactory import __version__
from gigafactory.domain.manifest.manifest import MergeStyle
from gigafactory.factory.forges import github_responses as answers
from gigafactory.factory.forges.forge import (
    Checks,
    CheckState,
    ForgeRefused,
    ForgeUnavailable,
    MergedPull,
    PullRequest,
    PullRequestText,
    UnmergedPull,
)
from gigafactory.system.tls import tls_context

TIMEOUT_S = 30.0
PAGE = 100
PAGES_MAX = 10

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": f"gigafactory/{__version__}",
}


@asynccontextmanager
async def open_github(
    api: str, token: str, repo: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator["Github"]:
    """Yield a repo, `owner/name`; its connections are closed after the block."""
    async with httpx.AsyncClient(
        base_url=api.rstrip("/"),
        headers={**_HEADERS, "Authorization": f"Bearer {token}"},
        timeout=TIMEOUT_S,
        transport=transport,
        verify=tls_context(),
    ) as http:
        yield Github(http, repo)


class Github:
    """One repo on GitHub."""

    def __init__(self, http: httpx.AsyncClient, repo: str) -> None:
        """`http` has the base URL and the token."""
        self._http = http
        self._repo = repo
        self._owner = repo.partition("/")[0]

    async def default_branch(self) -> str:
        answer = await self._request("GET", "", "the repo")
        return answers.decode(answer.content, answers.RepoResponse, "the repo").default_branch

    async def contains_commit(self, base: str, commit: str) -> bool:
        # The second page has none of the files, which may be many.
        answer = await self._request(
            "GET",
            f"/compare/{quote(base, safe='/')}...{commit}",
            "the comparison",
            params={"per_page": "1", "page": "2"},
            fine=(200, answers.NOT_FOUND),
        )
        if answer.status_code == answers.NOT_FOUND:
            return False
        compared = answers.decode(answer.content, answers.ComparisonResponse, "the comparison")
        return compared.status in {"identical", "behind"}

    async def find_pull_request(self, head: str, base: str) -> PullRequest | None:
        pulls = await self._pulls(head, base)
        if not pulls:
            return None
        # Only the response for a single pull request says whether it can be merged.
        chosen = next((pull for pull in pulls if pull.state == "open"), pulls[0])
        subject = f"the pull request {chosen.number}"
        answer = await self._request("GET", f"/pulls/{chosen.number}", subject)
        return answers.decode(answer.content, answers.PullResponse, subject).to_pull_request()

    async def find_merged(self, head: str, base: str, commit: str) -> PullRequest | None:
        ours = (pull.to_pull_request() for pull in await self._pulls(head, base))
        return next((pull for pull in ours if (pull.state, pull.head) == ("merged", commit)), None)

    async def _pulls(self, head: str, base: str) -> tuple[answers.PullResponse, ...]:
        subject = f"the pull requests of {head}"
        filters = {"head": f"{self._owner}:{head}", "base": base, "state": "all"}
        answer = await self._request(
            "GET", "/pulls", subject, params={**filters, "sort": "created", "direction": "desc"}
        )
        return answers.decode(answer.content, tuple[answers.PullResponse, ...], subject)

    async def open(self, head: str, base: str, text: PullRequestText) -> PullRequest:
        subject = f"a pull request of {head}"
        body = {"head": head, "base": base, "title": text.title, "body": text.body}
        answer = await self._request(
            "POST", "/pulls", subject, json=body, fine=(201, answers.UNPROCESSABLE)
        )
        if answer.status_code != answers.UNPROCESSABLE:
            return answers.decode(answer.content, answers.PullResponse, subject).to_pull_request()
        existing = await self.find_pull_request(head, base)
        if existing is not None and existing.state == "open":
            return existing
        raise ForgeRefused(f"{subject} cannot be opened: {answers.message(answer.content)}")

    async def checks(self, base: str, commit: str) -> Checks:
        required = await self._required_checks(base)
        if not required:
            return Checks(CheckState.GREEN)
        subject = "the checks"
        runs: list[answers.CheckRun] = []
        async for content in self._pages(f"/commits/{commit}/check-runs", subject):
            page = answers.decode(content, answers.CheckRuns, subject).check_runs
            runs += page
            if len(page) < PAGE:
                break
        statuses: list[answers.StatusResponse] = []
        async for content in self._pages(f"/commits/{commit}/status", subject):
            status_list = answers.decode(content, answers.StatusesResponse, subject).statuses
            statuses += status_list
            if len(status_list) < PAGE:
                break
        return answers.combine_checks(required, runs, statuses)

    async def merge(
        self, pull: PullRequest, base: str, commit: str, style: MergeStyle, text: PullRequestText
    ) -> MergedPull | UnmergedPull:
        if style == "ff":
            return await self._fast_forward(base, commit)
        body = {
            "sha": commit,
            "merge_method": style,
            "commit_title": text.title,
            "commit_message": text.body,
        }
        subject = f"the merge of #{pull.number}"
        path = f"/pulls/{pull.number}/merge"
        answer = await self._request("PUT", path, subject, json=body, fine=(200, *answers.UNMERGED))
        if answer.status_code in answers.UNMERGED:
            return answers.unmerged_from(answer.status_code, answer.content)
        return MergedPull(answers.decode(answer.content, answers.MergeResponse, subject).sha)

    async def close(self, pull: PullRequest) -> None:
        path, subject = f"/pulls/{pull.number}", f"closing #{pull.number}"
        await self._request("PATCH", path, subject, json={"state": "closed"})

    async def comment(self, pull: PullRequest, marker: str, text: str) -> bool:
        path, subject = f"/issues/{pull.number}/comments", f"the comments of #{pull.number}"
        async for content in self._pages(path, subject):
            page = answers.decode(content, tuple[answers.CommentResponse, ...], subject)
            if any(marker in (comment.body or "") for comment in page):
                return False
            if len(page) < PAGE:
                break
        await self._request(
            "POST", path, subject, json={"body": f"{text}\n\n{marker}"}, fine=(201,)
        )
        return True

    async def _required_checks(self, base: str) -> frozenset[answers.RequiredCheck]:
        name = quote(base, safe="/")
        subject = f"the branch {base}"
        answer = await self._request("GET", f"/branches/{name}", subject)
        required = answers.decode(answer.content, answers.BranchResponse, subject).required_checks()
        async for content in self._pages(f"/rules/branches/{name}", subject):
            rules = answers.decode(content, tuple[answers.RuleResponse, ...], subject)
            required |= frozenset(check for rule in rules for check in rule.required_checks())
            if len(rules) < PAGE:
                break
        return required

    async def _fast_forward(self, base: str, commit: str) -> MergedPull | UnmergedPull:
        """Fast-forward the base to the commit; GitHub then marks the pull request as merged."""
        answer = await self._request(
            "PATCH",
            f"/git/refs/heads/{quote(base, safe='/')}",
            f"fast-forwarding {base}",
            json={"sha": commit, "force": False},
            fine=(200, answers.CONFLICT, answers.UNPROCESSABLE),
        )
        if answer.is_success:
            return MergedPull(commit)
        reason = answers.message(answer.content) or "no reason given"
        return UnmergedPull(
            f"{base} cannot be fast-forwarded to it, as merge-style ff requires, or it must not be"
            f" pushed to ({reason})"
        )

    async def _pages(self, path: str, subject: str) -> AsyncIterator[bytes]:
        """Yield the pages of a list; none if this GitHub does not have the endpoint."""
        for page in range(1, PAGES_MAX + 1):
            answer = await self._request(
                "GET",
                path,
                subject,
                params={"per_page": str(PAGE), "page": str(page)},
                fine=(200, answers.NOT_FOUND),
            )
            if answer.status_code == answers.NOT_FOUND:
                return
            yield answer.content

    async def _request(
        self,
        method: str,
        path: str,
        subject: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Mapping[str, object] | None = None,
        fine: Collection[int] = (200,),
    ) -> httpx.Response:
        subject = f"{subject} ({self._repo} on {self._http.base_url.host})"
        try:
            answer = await self._http.request(
                method,
                f"/repos/{self._repo}{path}",
                params=params,
                json=json,
                # GET follows the redirect of a renamed repo; a write is never forwarded to another
                # place.
                follow_redirects=method == "GET",
            )
        except httpx.TimeoutException:
            raise ForgeUnavailable(f"{subject}: no answer within {TIMEOUT_S:g} s") from None
        except httpx.HTTPError as error:
            raise ForgeUnavailable(f"{subject}: the forge cannot be reached: {error}") from None
        if answer.status_code in fine:
            return answer
        now = datetime.now(UTC)
        raise answers.error_from(
            answer.status_code, answer.headers, answer.content, subject, now=now
        )
