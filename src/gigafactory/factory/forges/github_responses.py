"""What GitHub's answers mean to us: pull requests, checks, and every kind of no."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from gigafactory.factory.forges.forge import (
    Checks,
    Colour,
    ForgeAway,
    ForgeForbids,
    ForgeRefuses,
    PullRequest,
    Unmerged,
)

T = TypeVar("T")

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED = 401, 403, 404, 405
CONFLICT, UNPROCESSABLE, TOO_MANY, BROKEN = 409, 422, 429, 500
UNMERGED = (METHOD_NOT_ALLOWED, CONFLICT, UNPROCESSABLE)

_GOOD = frozenset({"success", "neutral", "skipped"})
_WAITING = frozenset({None, "pending", "expected"})
_ANY_APP = frozenset({None, -1})
_MESSAGE_CHARS_MAX = 500
_WAIT_S = 60.0


class Commit(msgspec.Struct, frozen=True):
    """One side of a pull request."""

    sha: str


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request as it is listed, or alone with `mergeable`."""

    number: int
    html_url: str
    state: str
    head: Commit
    merged_at: str | None = None
    merge_commit_sha: str | None = None
    mergeable: bool | None = None
    body: str | None = None

    def ours(self) -> PullRequest:
        """The pull request in our words."""
        merged = self.state != "open" and self.merged_at is not None
        return PullRequest(
            number=self.number,
            url=self.html_url,
            state="open" if self.state == "open" else "merged" if merged else "closed",
            head=self.head.sha,
            merged_as=self.merge_commit_sha if merged else None,
            clean=self.mergeable,
            body=self.body or "",
        )


class Repo(msgspec.Struct, frozen=True):
    """A repo, of which we need one thing."""

    default_branch: str


class Comparison(msgspec.Struct, frozen=True):
    """How a commit stands to a branch."""

    status: str


class Landed(msgspec.Struct, frozen=True):
    """The answer to a merge."""

    sha: str


class Comment(msgspec.Struct, frozen=True):
    """A comment below a pull request."""

    body: str | None = None


class Required(msgspec.Struct, frozen=True):
    """A check that must be green; `app` is who alone may say so."""

    context: str
    app: int | None = None


class _Required(msgspec.Struct, frozen=True):
    context: str
    app_id: int | None = None
    integration_id: int | None = None

    def ours(self) -> Required:
        app = self.app_id if self.app_id is not None else self.integration_id
        return Required(self.context, None if app in _ANY_APP else app)


class _StatusChecks(msgspec.Struct, frozen=True):
    contexts: tuple[str, ...] = ()
    checks: tuple[_Required, ...] = ()
    required_status_checks: tuple[_Required, ...] = ()


class _Protection(msgspec.Struct, frozen=True):
    required_status_checks: _StatusChecks | None = None


class Branch(msgspec.Struct, frozen=True):
    """A branch with what protects it."""

    protection: _Protection | None = None

    def required(self) -> frozenset[Required]:
        """The checks that its protection asks for."""
        found = self.protection and self.protection.required_status_checks
        if not found:
            return frozenset()
        named = frozenset(check.ours() for check in found.checks)
        known = {check.context for check in named}
        return named | {Required(name) for name in found.contexts if name not in known}


class Rule(msgspec.Struct, frozen=True):
    """A rule of a ruleset that holds for a branch."""

    type: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")

    def required(self) -> frozenset[Required]:
        """The checks that it asks for."""
        if self.type != "required_status_checks":
            return frozenset()
        asked = msgspec.json.decode(self.parameters, type=_StatusChecks)
        return frozenset(check.ours() for check in asked.required_status_checks)


class _App(msgspec.Struct, frozen=True):
    id: int


class CheckRun(msgspec.Struct, frozen=True):
    """One check of a commit, by an app."""

    name: str
    status: str
    conclusion: str | None = None
    app: _App | None = None


class CheckRuns(msgspec.Struct, frozen=True):
    """A page of checks."""

    check_runs: tuple[CheckRun, ...]


class Status(msgspec.Struct, frozen=True):
    """One check of a commit, told the older way."""

    context: str
    state: str


class Statuses(msgspec.Struct, frozen=True):
    """The newest status of each context."""

    statuses: tuple[Status, ...] = ()


def told(
    required: Iterable[Required], runs: Sequence[CheckRun], statuses: Sequence[Status]
) -> Checks:
    """What the required checks say: one that has not spoken is pending, and red outdoes pending."""
    by_colour: dict[Colour, list[str]] = {colour: [] for colour in Colour}
    for check in sorted(required, key=lambda each: each.context):
        by_colour[_colour(check, runs, statuses)].append(check.context)
    for colour in (Colour.RED, Colour.PENDING):
        if by_colour[colour]:
            return Checks(colour, tuple(dict.fromkeys(by_colour[colour])))
    return Checks(Colour.GREEN, tuple(dict.fromkeys(by_colour[Colour.GREEN])))


def _colour(check: Required, runs: Sequence[CheckRun], statuses: Sequence[Status]) -> Colour:
    said: list[str | None] = [
        run.conclusion if run.status == "completed" else None
        for run in runs
        if run.name == check.context
        and (check.app is None or (run.app is not None and run.app.id == check.app))
    ]
    said += [status.state for status in statuses if status.context == check.context]
    if any(word not in _GOOD and word not in _WAITING for word in said):
        return Colour.RED
    return Colour.GREEN if said and all(word in _GOOD for word in said) else Colour.PENDING


def read(content: bytes, kind: type[T], what: str) -> T:
    """The answer as a record.

    Raises ForgeRefuses for one that is none.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ForgeRefuses(f"{what}: the answer is not what GitHub describes: {error}") from None


def message(content: bytes) -> str:
    """What an answer says to people, on one line."""
    with contextlib.suppress(msgspec.DecodeError):
        told = msgspec.json.decode(content, type=_Said)
        details = [error.message for error in told.errors if isinstance(error, _Error)]
        words = " ".join([told.message, *(detail for detail in details if detail)])
        return " ".join(words.split())[:_MESSAGE_CHARS_MAX]
    return ""


class _Error(msgspec.Struct, frozen=True):
    message: str | None = None


class _Said(msgspec.Struct, frozen=True):
    message: str = ""
    errors: tuple[_Error | str, ...] = ()


def trouble(
    status: int, headers: Mapping[str, str], content: bytes, what: str, *, now: datetime
) -> ForgeRefuses | ForgeAway:
    """What an answer that is no success means; header names are in lower case."""
    said = message(content)
    quoted = f"{what}: {status}" + (f" {said!r}" if said else "")
    if status == UNAUTHORIZED:
        return ForgeForbids(f"{quoted}: the token is not known there; give the factory another")
    if status in {FORBIDDEN, TOO_MANY} and (wait := _limited(status, headers, said, now)):
        return ForgeAway(f"{quoted}: too many requests, wait {wait:.0f} s", retry_after_s=wait)
    if status == FORBIDDEN:
        hint = "the token may not do this; it needs to write contents and pull requests"
        return ForgeForbids(f"{quoted}: {hint}")
    if status == NOT_FOUND:
        return ForgeRefuses(f"{quoted}: it is not there, or the token may not see it")
    if status >= BROKEN:
        return ForgeAway(f"{quoted}: the forge has trouble of its own")
    return ForgeRefuses(quoted)


def _limited(status: int, headers: Mapping[str, str], said: str, now: datetime) -> float | None:
    """How long to wait, where it is a limit that was hit; None: it is another no."""
    after = headers.get("retry-after", "")
    if after.isdecimal():
        return max(1.0, float(after))
    if headers.get("x-ratelimit-remaining") == "0":
        reset = headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - now.timestamp()) if reset.isdecimal() else _WAIT_S
    return _WAIT_S if status == TOO_MANY or "rate limit" in said.lower() else None


def unmerged(status: int, content: bytes) -> Unmerged:
    """Why a merge was not made, of an answer in `UNMERGED`."""
    said = message(content) or "it did not say why"
    if status == CONFLICT:
        return Unmerged(f"the branch was moved since it was looked at ({said})")
    again = status == METHOD_NOT_ALLOWED and "base branch was modified" in said.lower()
    return Unmerged(f"the forge does not merge it ({said})", again=again)
