"""Responses of GitHub: states of checks, and a message for every refusal."""

from datetime import UTC, datetime

import msgspec
import pytest

from gigafactory.factory.forges.forge import (
    Checks,
    CheckState,
    ForgeForbidden,
    ForgeRefused,
    ForgeUnavailable,
)
from gigafactory.factory.forges.github_responses import (
    BranchResponse,
    CheckRuns,
    PullResponse,
    RequiredCheck,
    RuleResponse,
    StatusResponse,
    combine_checks,
    decode,
    error_from,
    message,
    unmerged_from,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BUILD, LINT = RequiredCheck("build"), RequiredCheck("lint", 7)
ALL_GREEN = Checks(CheckState.GREEN, ("build", "lint"))


def runs(*checks: tuple[str, str | None, int]) -> CheckRuns:
    listed = [
        {
            "name": name,
            "status": "completed" if conclusion else "queued",
            "conclusion": conclusion,
            "app": {"id": app},
        }
        for name, conclusion, app in checks
    ]
    return msgspec.convert({"check_runs": listed}, CheckRuns)


@pytest.mark.parametrize(
    ("checks", "statuses", "expected"),
    [
        ((), (), Checks(CheckState.PENDING, ("build", "lint"))),
        ((("build", "success", 1),), (), Checks(CheckState.PENDING, ("lint",))),
        ((("build", "success", 1), ("lint", "skipped", 7)), (), ALL_GREEN),
        (
            (("build", "success", 1), ("lint", "success", 8)),
            (),
            Checks(CheckState.PENDING, ("lint",)),
        ),
        ((("build", None, 1), ("lint", "failure", 7)), (), Checks(CheckState.RED, ("lint",))),
        ((("lint", "neutral", 7),), (("build", "success"),), ALL_GREEN),
        ((("lint", "neutral", 7),), (("build", "error"),), Checks(CheckState.RED, ("build",))),
        (
            (("lint", "neutral", 7),),
            (("build", "pending"),),
            Checks(CheckState.PENDING, ("build",)),
        ),
        ((("other", "failure", 1),), (), Checks(CheckState.PENDING, ("build", "lint"))),
    ],
)
def test_required_checks_combine_to_one_state(
    checks: tuple[tuple[str, str | None, int], ...],
    statuses: tuple[tuple[str, str], ...],
    expected: Checks,
) -> None:
    said = [StatusResponse(*status) for status in statuses]
    assert combine_checks([BUILD, LINT], runs(*checks).check_runs, said) == expected


def test_checks_are_green_when_none_are_required() -> None:
    assert combine_checks([], runs(("build", "failure", 1)).check_runs, []) == Checks(
        CheckState.GREEN
    )


def test_required_checks_come_from_protection_and_rules() -> None:
    branch = b"""{"protection": {"required_status_checks": {"contexts": ["build", "old"],
        "checks": [{"context": "build", "app_id": -1}, {"context": "lint", "app_id": 7}]}}}"""
    assert decode(branch, BranchResponse, "the branch").required_checks() == {
        BUILD,
        LINT,
        RequiredCheck("old"),
    }
    assert decode(b"{}", BranchResponse, "the branch").required_checks() == frozenset()
    rules = b"""[{"type": "deletion"}, {"type": "pull_request", "parameters": {"x": 1}},
        {"type": "required_status_checks", "parameters": {"strict": true,
        "required_status_checks": [{"context": "lint", "integration_id": 7}]}}]"""
    found = decode(rules, tuple[RuleResponse, ...], "the rules")
    assert [rule.required_checks() for rule in found] == [frozenset(), frozenset(), {LINT}]


@pytest.mark.parametrize(
    ("state", "merged_at", "ours"),
    [("open", None, "open"), ("closed", None, "closed"), ("closed", "2026-01-01", "merged")],
)
def test_closed_pull_request_is_merged_only_with_a_merge_time(
    state: str, merged_at: str | None, ours: str
) -> None:
    answer = {
        "number": 1,
        "html_url": "https://example.com/1",
        "state": state,
        "merged_at": merged_at,
        "merge_commit_sha": "b" * 40,
        "head": {"sha": "a" * 40},
    }
    pull = msgspec.convert(answer, PullResponse).to_pull_request()
    assert pull.state == ours
    assert pull.merged_as == ("b" * 40 if ours == "merged" else None)


@pytest.mark.parametrize(
    ("status", "headers", "said", "kind", "words"),
    [
        (401, {}, "Bad credentials", ForgeForbidden, "the token is not valid"),
        (403, {}, "Resource not accessible", ForgeForbidden, "the token lacks permission"),
        (404, {}, "Not Found", ForgeRefused, "it does not exist, or the token has no access to it"),
        (410, {}, "Gone", ForgeRefused, "410 'Gone'"),
        (422, {}, "Validation Failed", ForgeRefused, "422 'Validation Failed'"),
        (301, {}, "Moved Permanently", ForgeRefused, "301"),
        (500, {}, "", ForgeUnavailable, "internal error"),
        (503, {}, "", ForgeUnavailable, "internal error"),
        (429, {}, "", ForgeUnavailable, "wait 60 s"),
        (403, {}, "You have exceeded a secondary rate limit", ForgeUnavailable, "wait 60 s"),
        (403, {"retry-after": "17"}, "", ForgeUnavailable, "wait 17 s"),
    ],
)
def test_error_response_maps_to_its_class_and_message(
    status: int, headers: dict[str, str], said: str, kind: type[Exception], words: str
) -> None:
    content = msgspec.json.encode({"message": said})
    found = error_from(status, headers, content, "the merge of #1", now=NOON)
    assert type(found) is kind
    assert str(found).startswith("the merge of #1: ")
    assert words in str(found)


@pytest.mark.parametrize(("reset", "wait"), [(NOON.timestamp() + 90, 90.0), (0, 1.0)])
def test_exhausted_rate_limit_gives_the_time_to_its_reset(reset: float, wait: float) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset))}
    found = error_from(403, headers, b"{}", "the repo", now=NOON)
    assert isinstance(found, ForgeUnavailable)
    assert found.retry_after_s == wait


def test_merge_is_retried_when_the_base_branch_has_moved() -> None:
    said = b'{"message": "Base branch was modified. Review and try the merge again."}'
    assert unmerged_from(405, said).retry
    assert not unmerged_from(405, b'{"message": "Pull Request is not mergeable"}').retry
    assert "has changed" in unmerged_from(409, b"").reason


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"message": "Failed", "errors": [{"message": "a"}, "b", {}]}', "Failed a"),
        (b'{"message": "two\\nlines"}', "two lines"),
        (b"<html>", ""),
        (b"[]", ""),
    ],
)
def test_error_message_is_reduced_to_one_line(content: bytes, expected: str) -> None:
    assert message(content) == expected


def test_response_that_is_not_json_is_rejected() -> None:
    with pytest.raises(ForgeRefused, match="does not match GitHub"):
        decode(b"<html>", BranchResponse, "the branch")
