"""GitHub, and GitHub Enterprise, over their REST API."""

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
    Colour,
    ForgeAway,
    ForgeRefuses,
    Merged,
    PullRequest,
    Unmerged,
    Words,
)
from gigafactory.system.tls import trusted

TIMEOUT_S = 30.0
PAGE = 100
PAGES_MAX = 10

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": f"gigafactory/{__version__}",
}


@asynccontextmanager
async def opened(
    api: str, token: str, repo: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator["Github"]:
    """A repo, `owner/name`, while the block lasts."""
    async with httpx.AsyncClient(
        base_url=api.rstrip("/"),
        headers={**_HEADERS, "Authorization": f"Bearer {token}"},
        timeout=TIMEOUT_S,
        transport=transport,
        verify=trusted(),
    ) as http:
        yield Github(http, repo)


class Github:
    """One repo; see the port for what is promised."""

    def __init__(self, http: httpx.AsyncClient, repo: str) -> None:
        """`http` knows the address and shows the token."""
        self._http = http
        self._repo = repo
        self._owner = repo.partition("/")[0]

    async def default_branch(self) -> str:
        answer = await self._ask("GET", "", "the repo")
        return answers.read(answer.content, answers.Repo, "the repo").default_branch

    async def landed(self, base: str, commit: str) -> bool:
        # The second page has none of the files, which may be many.
        answer = await self._ask(
            "GET",
            f"/compare/{quote(base, safe='/')}...{commit}",
            "the comparison",
            params={"per_page": "1", "page": "2"},
            fine=(200, answers.NOT_FOUND),
        )
        if answer.status_code == answers.NOT_FOUND:
            return False
        compared = answers.read(answer.content, answers.Comparison, "the comparison")
        return compared.status in {"identical", "behind"}

    async def pull_request(self, head: str, base: str) -> PullRequest | None:
        found = await self._pulls(head, base)
        if not found:
            return None
        # Only one that is asked for alone tells whether it can be merged.
        chosen = next((pull for pull in found if pull.state == "open"), found[0])
        what = f"the pull request {chosen.number}"
        answer = await self._ask("GET", f"/pulls/{chosen.number}", what)
        return answers.read(answer.content, answers.Pull, what).ours()

    async def merged(self, head: str, base: str, commit: str) -> PullRequest | None:
        ours = (pull.ours() for pull in await self._pulls(head, base))
        return next((pull for pull in ours if (pull.state, pull.head) == ("merged", commit)), None)

    async def _pulls(self, head: str, base: str) -> tuple[answers.Pull, ...]:
        what = f"the pull requests of {head}"
        asked = {"head": f"{self._owner}:{head}", "base": base, "state": "all"}
        answer = await self._ask(
            "GET", "/pulls", what, params={**asked, "sort": "created", "direction": "desc"}
        )
        return answers.read(answer.content, tuple[answers.Pull, ...], what)

    async def open(self, head: str, base: str, words: Words) -> PullRequest:
        what = f"a pull request of {head}"
        wish = {"head": head, "base": base, "title": words.title, "body": words.body}
        answer = await self._ask(
            "POST", "/pulls", what, json=wish, fine=(201, answers.UNPROCESSABLE)
        )
        if answer.status_code != answers.UNPROCESSABLE:
            return answers.read(answer.content, answers.Pull, what).ours()
        there = await self.pull_request(head, base)
        if there is not None and there.state == "open":
            return there
        raise ForgeRefuses(f"{what} cannot be opened: {answers.message(answer.content)}")

    async def checks(self, base: str, commit: str) -> Checks:
        required = await self._required(base)
        if not required:
            return Checks(Colour.GREEN)
        what = "the checks"
        runs: list[answers.CheckRun] = []
        async for content in self._pages(f"/commits/{commit}/check-runs", what):
            page = answers.read(content, answers.CheckRuns, what).check_runs
            runs += page
            if len(page) < PAGE:
                break
        statuses: list[answers.Status] = []
        async for content in self._pages(f"/commits/{commit}/status", what):
            told = answers.read(content, answers.Statuses, what).statuses
            statuses += told
            if len(told) < PAGE:
                break
        return answers.told(required, runs, statuses)

    async def merge(
        self, pull: PullRequest, base: str, commit: str, style: MergeStyle, words: Words
    ) -> Merged | Unmerged:
        if style == "ff":
            return await self._forward(base, commit)
        wish = {
            "sha": commit,
            "merge_method": style,
            "commit_title": words.title,
            "commit_message": words.body,
        }
        what = f"the merge of #{pull.number}"
        path = f"/pulls/{pull.number}/merge"
        answer = await self._ask("PUT", path, what, json=wish, fine=(200, *answers.UNMERGED))
        if answer.status_code in answers.UNMERGED:
            return answers.unmerged(answer.status_code, answer.content)
        return Merged(answers.read(answer.content, answers.Landed, what).sha)

    async def close(self, pull: PullRequest) -> None:
        path, what = f"/pulls/{pull.number}", f"closing #{pull.number}"
        await self._ask("PATCH", path, what, json={"state": "closed"})

    async def comment(self, pull: PullRequest, marker: str, text: str) -> bool:
        path, what = f"/issues/{pull.number}/comments", f"the comments of #{pull.number}"
        async for content in self._pages(path, what):
            page = answers.read(content, tuple[answers.Comment, ...], what)
            if any(marker in (comment.body or "") for comment in page):
                return False
            if len(page) < PAGE:
                break
        await self._ask("POST", path, what, json={"body": f"{text}\n\n{marker}"}, fine=(201,))
        return True

    async def _required(self, base: str) -> frozenset[answers.Required]:
        name = quote(base, safe="/")
        what = f"the branch {base}"
        answer = await self._ask("GET", f"/branches/{name}", what)
        required = answers.read(answer.content, answers.Branch, what).required()
        async for content in self._pages(f"/rules/branches/{name}", what):
            rules = answers.read(content, tuple[answers.Rule, ...], what)
            required |= frozenset(check for rule in rules for check in rule.required())
            if len(rules) < PAGE:
                break
        return required

    async def _forward(self, base: str, commit: str) -> Merged | Unmerged:
        """Move the base on to the commit; the forge then takes the pull request for merged."""
        answer = await self._ask(
            "PATCH",
            f"/git/refs/heads/{quote(base, safe='/')}",
            f"moving {base} on",
            json={"sha": commit, "force": False},
            fine=(200, answers.CONFLICT, answers.UNPROCESSABLE),
        )
        if answer.is_success:
            return Merged(commit)
        said = answers.message(answer.content) or "it did not say why"
        return Unmerged(
            f"{base} cannot be moved on to it without a merge, as merge-style ff asks, or it may"
            f" not be pushed to ({said})"
        )

    async def _pages(self, path: str, what: str) -> AsyncIterator[bytes]:
        """The pages of a list; one that this forge does not have is no page at all."""
        for page in range(1, PAGES_MAX + 1):
            answer = await self._ask(
                "GET",
                path,
                what,
                params={"per_page": str(PAGE), "page": str(page)},
                fine=(200, answers.NOT_FOUND),
            )
            if answer.status_code == answers.NOT_FOUND:
                return
            yield answer.content

    async def _ask(
        self,
        method: str,
        path: str,
        what: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Mapping[str, object] | None = None,
        fine: Collection[int] = (200,),
    ) -> httpx.Response:
        what = f"{what} ({self._repo} on {self._http.base_url.host})"
        try:
            answer = await self._http.request(
                method,
                f"/repos/{self._repo}{path}",
                params=params,
                json=json,
                # A repo that was renamed is found; a write is never passed on to somewhere else.
                follow_redirects=method == "GET",
            )
        except httpx.TimeoutException:
            raise ForgeAway(f"{what}: no answer within {TIMEOUT_S:g} s") from None
        except httpx.HTTPError as error:
            raise ForgeAway(f"{what}: the forge is not reached: {error}") from None
        if answer.status_code in fine:
            return answer
        now = datetime.now(UTC)
        raise answers.trouble(answer.status_code, answer.headers, answer.content, what, now=now)
