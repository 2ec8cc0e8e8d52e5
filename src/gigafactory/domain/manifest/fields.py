"""The fields of a manifest and their decoders."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
from cronsim import CronSim, CronSimError

from gigafactory.domain.manifest.capability import Requirement
from gigafactory.domain.manifest.decoder import (
    LIST_MAX,
    DecodeContext,
    FieldDecoder,
    FieldTable,
    boolean,
    check_message,
    list_of,
    mismatch,
    one_of,
    quantity,
    record_of,
    text,
    whole_number,
)
from gigafactory.domain.manifest.engine_ref import engine_name
from gigafactory.domain.manifest.manifest import JobBudget, Retry, ReviewPolicy
from gigafactory.domain.manifest.names import (
    absolute_path,
    glob,
    line,
    option_free_line,
    person,
    profile_reference,
    reference,
    script,
    slug,
    variable,
)
from gigafactory.domain.manifest.repo import ref, repo
from gigafactory.domain.manifest.units import parse_count, parse_duration, parse_usd
from gigafactory.domain.manifest.yaml_node import ListNode, MappingNode, Node, Scalar

RETRY_ON_CHOICES = (
    "timeout",
    "crash",
    "verify_failed",
    "setup_failed",
    "overloaded",
    "no_change",
    "context_too_long",
    "merge_conflict",
)
"""The results that `retry.on` may list; others are never retried."""

TITLE_CHARS_MAX = 500
SCRIPT_CHARS_MAX = 16 * 1024
DEPS_MAX = 1000

_NOT_A_DATE = re.compile(r"[0-9]+(\.[0-9]*)?|.*[smhd]")
_REVIEWERS = re.compile(r"reviewers:\s*\[([^\[\]]*)\]")
_ANY_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_CRON_FIELDS = 5


def _positive(duration: str) -> timedelta:
    value = parse_duration(duration)
    if not value:
        raise ValueError("a duration of more than nothing, such as 45m")
    return value


def _capability(token: str) -> str:
    return Requirement.parse(token).token


def _profile(name: str) -> str:
    profile_reference(name)
    return name


def _not_before(written: str) -> datetime | timedelta:
    if _NOT_A_DATE.fullmatch(written):
        return parse_duration(written)
    try:
        moment = datetime.fromisoformat(written)
        # A time without a zone is UTC.
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        utc = aware.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("a time such as 2030-01-31T09:00Z, or a duration such as 2h") from None
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def _schedule(expression: str) -> str:
    schedule = line(expression, chars_max=200)
    if len(schedule.split()) != _CRON_FIELDS:
        raise ValueError("a cron expression of five fields, such as `30 6 * * 1-5`")
    try:
        next(CronSim(schedule, _ANY_DAY))
    except StopIteration:
        raise ValueError("a cron expression that matches some time") from None
    except (CronSimError, ArithmeticError, AssertionError, TypeError, ValueError) as wrong:
        reason = f" ({str(wrong).lower()})" if isinstance(wrong, CronSimError) else ""
        raise ValueError(f"a cron expression such as `30 6 * * 1-5`{reason}") from None
    return schedule


def _environment(node: Node, expected: object) -> str:
    """Show only the variable's name: its value may be a secret."""
    variable_name = node.text.partition("=")[0] if isinstance(node, Scalar) else ""
    return mismatch(Scalar(variable_name, "text"), expected)


class _BudgetFields(msgspec.Struct, frozen=True):
    usd: int | None = None
    tokens: int | None = None
    wall: timedelta | None = None


class _NamedReviewers(msgspec.Struct, frozen=True):
    reviewers: tuple[str, ...] = ()
    quorum: int = 1


_budget_fields = record_of(
    _BudgetFields,
    FieldTable(
        {
            "usd": quantity(parse_usd),
            "tokens": quantity(parse_count),
            "wall": quantity(_positive),
        }
    ),
    expected="a mapping of usd, tokens and wall",
)
_retry = record_of(
    Retry,
    FieldTable(
        {
            "max": whole_number(0, 100),
            "backoff": quantity(parse_duration),
            "on": list_of(one_of(*RETRY_ON_CHOICES)),
        }
    ),
    expected="a mapping of max, backoff and on",
)
_people = list_of(text(person))
_named_reviewers = record_of(
    _NamedReviewers,
    FieldTable({"reviewers": _people, "quorum": whole_number(1, LIST_MAX)}),
    expected="a mapping of reviewers and quorum",
)


def _budget(node: Node, field: str, context: DecodeContext) -> JobBudget | None:
    sums = _budget_fields(node, field, context)
    return None if sums is None else JobBudget(sums.usd, sums.tokens, sums.wall)


def _review_policy(node: Node, field: str, context: DecodeContext) -> ReviewPolicy | None:
    if isinstance(node, MappingNode):
        named = _named_reviewers(node, field, context)
        return None if named is None else _quorum_of(named, node, field, context)
    word = node.text if isinstance(node, Scalar) and node.kind in {"plain", "text"} else ""
    if word in {"auto", "manual"}:
        return msgspec.convert({"mode": word}, ReviewPolicy)
    if match := _REVIEWERS.fullmatch(word):
        names = (name.strip().strip("\"'") for name in match[1].split(","))
        listing = ListNode(tuple(Scalar(name, "plain", node.line) for name in names if name))
        return _quorum_of(_NamedReviewers(_names(listing, field, context)), node, field, context)
    context.add_fault(
        field,
        node.line,
        mismatch(node, "auto, manual, reviewers:[@a, @b] or {reviewers: [...], quorum: n}"),
    )
    return None


def _names(listing: ListNode, field: str, context: DecodeContext) -> tuple[str, ...]:
    return msgspec.convert(_people(listing, field, context), tuple[str, ...])


def _quorum_of(
    named: _NamedReviewers, node: Node, field: str, context: DecodeContext
) -> ReviewPolicy | None:
    if len(named.reviewers) < named.quorum:
        message = f"found {len(named.reviewers)} reviewers for a quorum of {named.quorum}"
        context.add_fault(field, node.line, message + "; expected at least as many")
        return None
    return ReviewPolicy("reviewers", named.reviewers, named.quorum)


def _lines(chars_max: int) -> FieldDecoder:
    return text(partial(line, chars_max=chars_max))


_script = text(partial(script, chars_max=SCRIPT_CHARS_MAX))
_tokens = list_of(text(_capability, explain=check_message))

SHARED_FIELDS: Mapping[str, FieldDecoder] = {
    "engine-class": one_of("agentic-coder", "chat-coder", "review-only"),
    "prefers-engine": list_of(text(engine_name)),
    "model": text(partial(option_free_line, chars_max=200)),
    "capabilities": _tokens,
    "verify-rounds": whole_number(0, 100),
    "stall": quantity(parse_duration),
    "review-policy": _review_policy,
    "ship": one_of("merge", "pr", "none"),
    "ship-policy": one_of("manual", "auto"),
    "merge-style": one_of("merge", "squash", "ff"),
    "wait-merge": boolean,
    "sandbox": one_of("none", "workspace", "strict"),
    "allowed-scope": list_of(text(glob)),
}
"""Fields that jobs and profiles share."""

FIELDS: Mapping[str, FieldDecoder] = {
    **SHARED_FIELDS,
    "name": text(slug),
    "title": _lines(TITLE_CHARS_MAX),
    "product": text(slug),
    "repo": text(repo),
    "base": text(ref),
    "cwd": text(absolute_path),
    "engine": text(engine_name),
    "command": _script,
    "profile": text(_profile),
    "prefers": _tokens,
    "priority": one_of("critical", "high", "medium", "low"),
    "lock": _lines(200),
    "deps": list_of(text(reference), size_max=DEPS_MAX),
    "deps-mode": one_of("hard", "soft"),
    "on-dep-failure": one_of("wait", "fail"),
    "setup": _script,
    "verify": _script,
    "timeout": quantity(_positive),
    "budget": _budget,
    "retry": _retry,
    "yolo": boolean,
    "artifacts": list_of(text(glob)),
    "env": list_of(text(variable, explain=_environment)),
    "idempotency-key": _lines(200),
    "tracker-item": _lines(200),
    "kind": one_of("leaf", "composite"),
    "parent": text(reference),
    "phase": whole_number(0, 10_000),
    "not-before": quantity(_not_before),
    "schedule": text(_schedule),
}
"""Every field of a manifest except `children`."""
