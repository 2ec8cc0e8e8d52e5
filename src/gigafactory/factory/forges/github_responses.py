"""Decodes GitHub's responses: pull requests, checks, and every kind of error."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from gigafactory.factory.forges.forge import (
    Checks,
    CheckState,
    ForgeForbidden,
    ForgeRefused,
    ForgeUnavailable,
    PullRequest,
    UnmergedPull,
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


class CommitResponse(msgspec.Struct, frozen=True):
    """One side of a pull request."""

    sha: str


class PullResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request from a list, or a single one with `mergeable`."""

    number: int
    html_url: str
    state: str
    head: CommitResponse
    merged_at: str | None = None
    merge_commit_sha: str | None = None
    mergeable: bool | None = None
    body: str | None = None

    def to_pull_request(self) -> PullRequest:
        """Return it as a PullRequest of the port."""
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


class RepoResponse(msgspec.Struct, frozen=True):
    """A repo, reduced to its default branch."""

    default_branch: str


class ComparisonResponse(msgspec.Struct, frozen=True):
    """How a commit relates to a branch."""

    status: str


class MergeResponse(msgspec.Struct, frozen=True):
    """The response to a merge."""

    sha: str


class CommentResponse(msgspec.Struct, frozen=True):
    """A comment on a pull request."""

    body: str | None = None


class RequiredCheck(msgspec.Struct, frozen=True):
    """A check that must be green; `app` is the only one that may report it."""

    context: str
    app: int | None = None


class _Required(msgspec.Struct, frozen=True):
    context: str
    app_id: int | None = None
    integration_id: int | None = None

    def to_required_check(self) -> RequiredCheck:
        app = self.app_id if self.app_id is not None else self.integration_id
        return RequiredCheck(self.context, None if app in _ANY_APP else app)


class _StatusChecks(msgspec.Struct, frozen=True):
    contexts: tuple[str, ...] = ()
    checks: tuple[_Required, ...] = ()
    required_status_checks: tuple[_Required, ...] = ()


class _Protection(msgspec.Struct, frozen=True):
    required_status_checks: _StatusChecks | None = None


class BranchResponse(msgspec.Struct, frozen=True):
    """A branch with its protection."""

    protection: _Protection | None = None

    def required_checks(self) -> frozenset[RequiredCheck]:
        """Return the checks that its protection requires."""
        checks = self.protection and self.protection.required_status_checks
        if not checks:
            return frozenset()
        named = frozenset(check.to_required_check() for check in checks.checks)
        contexts = {check.context for check in named}
        return named | {RequiredCheck(name) for name in checks.contexts if name not in contexts}


class RuleResponse(msgspec.Struct, frozen=True):
    """A ruleset's rule for a branch."""

    type: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")

    def required_checks(self) -> frozenset[RequiredCheck]:
        """Return the checks that it requires."""
        if self.type != "required_status_checks":
            return frozenset()
        status_checks = msgspec.json.decode(self.parameters, type=_StatusChecks)
        return frozenset(
            check.to_required_check() for check in status_checks.required_status_checks
        )


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


class StatusResponse(msgspec.Struct, frozen=True):
    """One check of a commit, from the older status API."""

    context: str
    state: str


class StatusesResponse(msgspec.Struct, frozen=True):
    """The newest status of each context."""

    statuses: tuple[StatusResponse, ...] = ()


def combine_checks(
    required: Iterable[RequiredCheck], runs: Sequence[CheckRun], statuses: Sequence[StatusResponse]
) -> Checks:
    """Combine the required checks: a missing one is pending, and red beats pending."""
    by_colour: dict[CheckState, list[str]] = {colour: [] for colour in CheckState}
    for check in sorted(required, key=lambda each: each.context):
        by_colour[_check_state(check, runs, statuses)].append(check.context)
    for colour in (CheckState.RED, CheckState.PENDING):
        if by_colour[colour]:
            return Checks(colour, tuple(dict.fromkeys(by_colour[colour])))
    return Checks(CheckState.GREEN, tuple(dict.fromkeys(by_colour[CheckState.GREEN])))


def _check_state(
    check: RequiredCheck, runs: Sequence[CheckRun], statuses: Sequence[StatusResponse]
) -> CheckState:
    states: list[str | None] = [
        run.conclusion if run.status == "completed" else None
        for run in runs
        if run.name == check.context
        and (check.app is None or (run.app is not None and run.app.id == check.app))
    ]
    states += [status.state for status in statuses if status.context == check.context]
    if any(word not in _GOOD and word not in _WAITING for word in states):
        return CheckState.RED
    return (
        CheckState.GREEN if states and all(word in _GOOD for word in states) else CheckState.PENDING
    )


def decode(content: bytes, kind: type[T], subject: str) -> T:
    """Decode a response.

    Raises ForgeRefused if it does not match.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ForgeRefused(
            f"{subject}: the response does not match GitHub's documentation: {error}"
        ) from None


def message(content: bytes) -> str:
    """Return the message of a response on one line."""
    with contextlib.suppress(msgspec.DecodeError):
        body = msgspec.json.decode(content, type=_ErrorResponse)
        details = [error.message for error in body.errors if isinstance(error, _Error)]
        words = " ".join([body.message, *(detail for detail in details if detail)])
        return " ".join(words.split())[:_MESSAGE_CHARS_MAX]
    return ""


class _Error(msgspec.Struct, frozen=True):
    message: str | None = None


class _ErrorResponse(msgspec.Struct, frozen=True):
    message: str = ""
    errors: tuple[_Error | str, ...] = ()


def error_from(
    status: int, headers: Mapping[str, str], content: bytes, subject: str, *, now: datetime
) -> ForgeRefused | ForgeUnavailable:
    """Return the error that an unsuccessful response means; header names are lower case."""
    message_text = message(content)
    quoted = f"{subject}: {status}" + (f" {message_text!r}" if message_text else "")
    if status == UNAUTHORIZED:
        return ForgeForbidden(f"{quoted}: the token is not valid; give the factory another")
    if status in {FORBIDDEN, TOO_MANY} and (
        wait := _rate_limit_wait(status, headers, message_text, now)
    ):
        return ForgeUnavailable(
            f"{quoted}: too many requests, wait {wait:.0f} s", retry_after_s=wait
        )
    if status == FORBIDDEN:
        hint = "the token lacks permission; it needs write access to contents and pull requests"
        return ForgeForbidden(f"{quoted}: {hint}")
    if status == NOT_FOUND:
        return ForgeRefused(f"{quoted}: it does not exist, or the token has no access to it")
    if status >= BROKEN:
        return ForgeUnavailable(f"{quoted}: the forge has an internal error")
    return ForgeRefused(quoted)


def _rate_limit_wait(
    status: int, headers: Mapping[str, str], message_text: str, now: datetime
) -> float | None:
    """Return how long to wait if a rate limit was hit, else None."""
    after = headers.get("retry-after", "")
    if after.isdecimal():
        return max(1.0, float(after))
    if headers.get("x-ratelimit-remaining") == "0":
        reset = headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - now.timestamp()) if reset.isdecimal() else _WAIT_S
    return _WAIT_S if status == TOO_MANY or "rate limit" in message_text.lower() else None


def unmerged_from(status: int, content: bytes) -> UnmergedPull:
    """Return why a merge was not made, for a status in `UNMERGED`."""
    message_text = message(content) or "no reason given"
    if status == CONFLICT:
        return UnmergedPull(f"the branch has changed meanwhile ({message_text})")
    again = status == METHOD_NOT_ALLOWED and "base branch was modified" in message_text.lower()
    return UnmergedPull(f"the forge refuses to merge it ({message_text})", retry=again)
