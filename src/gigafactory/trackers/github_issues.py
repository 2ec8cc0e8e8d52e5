"""GitHub issues as tickets: open and closed are states, labels carry the rest."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx
import msgspec

from gigafactory.domain.errors import NotFound
from gigafactory.domain.tracker.ticket import RUN_LABEL, Ticket, TicketStatus, is_handed_over
from gigafactory.trackers.http import (
    MISSING,
    NOT_FOUND,
    PAGE,
    PAGES_MAX,
    TrackerClient,
    decode_answer,
    decode_delivery,
    open_client,
)

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
}
_ITEM = re.compile(r"(?:(?P<repo>[^#]+)?#)?(?P<number>[0-9]{1,12})")
_UNPROCESSABLE = 422
_CLOSED_AS: dict[str | None, TicketStatus] = {"not_planned": "wont_fix", "duplicate": "closed"}
_TYPES = frozenset({"bug", "feature", "task"})


class _Label(msgspec.Struct, frozen=True):
    name: str | None = None


class _User(msgspec.Struct, frozen=True):
    login: str


class _Type(msgspec.Struct, frozen=True):
    name: str


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """An issue; GitHub lists pull requests as issues too."""

    number: int
    title: str
    state: str
    state_reason: str | None = None
    body: str | None = None
    labels: tuple[_Label | str, ...] = ()
    assignees: tuple[_User, ...] | None = ()
    html_url: str | None = None
    type: _Type | None = None
    pull_request: dict[str, object] | None = None

    def to_item(self, repo: str) -> Ticket:
        """Convert to a tracker item; its id includes the repo, so it is globally unique."""
        labels = tuple(
            name
            for label in self.labels
            if (name := label if isinstance(label, str) else label.name)
        )
        kind = self.type.name.lower() if self.type else next(iter(_TYPES.intersection(labels)), "")
        closed = _CLOSED_AS.get(self.state_reason, "done")
        return Ticket(
            id=f"{repo}#{self.number}",
            title=self.title,
            type=kind if kind in _TYPES else "task",
            status="open" if self.state == "open" else closed,
            description=self.body or "",
            labels=labels,
            assignees=tuple(user.login for user in self.assignees or ()),
            url=self.html_url,
        )


class _Comment(msgspec.Struct, frozen=True):
    body: str | None = None


class _Repository(msgspec.Struct, frozen=True):
    full_name: str


class _Delivery(msgspec.Struct, frozen=True):
    issue: Issue | None = None
    repository: _Repository | None = None


@asynccontextmanager
async def open_issues(
    api: str,
    token: str | None,
    repo: str,
    *,
    agent: str,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator["GithubIssues"]:
    """Open the issues of a repo, `owner/name`, while the block lasts."""
    async with open_client(api, token, _HEADERS, transport) as line:
        yield GithubIssues(line, repo, agent=agent)


class GithubIssues:
    """Tracker adapter for the issues of one repo."""

    def __init__(self, client: TrackerClient, repo: str, *, agent: str) -> None:
        self._client = client
        self._repo = repo
        self._agent = agent

    async def item(self, item_id: str) -> Ticket | None:
        subject = f"the issue {item_id}"
        answer = await self._client.request("GET", self._path(item_id), subject, ok=(200, *MISSING))
        if answer.status_code in MISSING:
            return None
        issue = decode_answer(answer.content, Issue, subject)
        return None if issue.pull_request is not None else issue.to_item(self._repo)

    async def items_for_agents(self) -> Sequence[Ticket]:
        tickets: dict[str, Ticket] = {}
        for wanted in ({"labels": RUN_LABEL}, {"assignee": self._agent.lstrip("@")}):
            # GitHub answers 422 for an unknown user: no issues.
            async for issue in self._list(wanted):
                item = issue.to_item(self._repo)
                if issue.pull_request is None and is_handed_over(item, self._agent):
                    tickets[item.id] = item
        return list(tickets.values())

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        path, subject = self._path(item.id), f"the labels of {item.id}"
        if more := [label for label in labels if label not in item.labels]:
            await self._client.request("POST", f"{path}/labels", subject, json={"labels": more})
        for label in item.labels:
            if label not in labels:
                label_path = f"{path}/labels/{quote(label, safe='')}"
                await self._client.request("DELETE", label_path, subject, ok=(200, 204, NOT_FOUND))
        if status == "done":
            body = {"state": "closed", "state_reason": "completed"}
            await self._client.request("PATCH", path, f"the issue {item.id}", json=body)

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        path, subject = f"{self._path(item_id)}/comments", f"the comments of {item_id}"
        async for content in self._pages(path, subject, {}):
            page = decode_answer(content, tuple[_Comment, ...], subject)
            if any(marker in (comment.body or "") for comment in page):
                return False
            if len(page) < PAGE:
                break
        await self._client.request(
            "POST", path, subject, json={"body": f"{text}\n\n{marker}"}, ok=(201,)
        )
        return True

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        about = decode_delivery(body, _Delivery)
        if about.issue is None or about.repository is None:
            return None
        if about.repository.full_name.lower() != self._repo.lower():
            return None
        return await self.item(str(about.issue.number))

    async def _list(self, wanted: dict[str, str]) -> AsyncIterator[Issue]:
        parameters = {**wanted, "state": "open", "sort": "created", "direction": "asc"}
        async for content in self._pages(f"/repos/{self._repo}/issues", "the issues", parameters):
            page = decode_answer(content, tuple[Issue, ...], "the issues")
            for issue in page:
                yield issue
            if len(page) < PAGE:
                return

    async def _pages(
        self, path: str, subject: str, parameters: dict[str, str]
    ) -> AsyncIterator[bytes]:
        for page in range(1, PAGES_MAX + 1):
            params = {**parameters, "per_page": str(PAGE), "page": str(page)}
            answer = await self._client.request(
                "GET", path, subject, params=params, ok=(200, _UNPROCESSABLE)
            )
            if answer.status_code == _UNPROCESSABLE:
                return
            yield answer.content

    def _path(self, item_id: str) -> str:
        match = _ITEM.fullmatch(item_id)
        if match is None or (match["repo"] or self._repo).lower() != self._repo.lower():
            raise NotFound("issue", item_id[:100], f"write {self._repo}#7, #7 or 7")
        return f"/repos/{self._repo}/issues/{match['number']}"
