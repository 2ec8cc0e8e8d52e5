"""Refusals: a stable code, and a message that a person can act on."""

import re

import pytest

from gigafactory.domain import errors
from gigafactory.domain.errors import (
    Conflict,
    Cycle,
    Fault,
    Fenced,
    IllegalTransition,
    Invalid,
    LogGap,
    NotFound,
    RangeNotSatisfiable,
    Refused,
    RepoNotOwned,
    TooManyRequests,
    TrackerUnavailable,
)

REFUSALS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, Refused)
]


def test_every_refusal_class_has_a_unique_code_and_is_documented() -> None:
    codes = [refusal.code for refusal in REFUSALS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)
    tree = errors.__doc__ or ""
    assert [r.__name__ for r in REFUSALS if not re.search(rf"\b{r.__name__}\b", tree)] == []


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (Fault("retry.max", "is -1", 3), "line 3: retry.max: is -1"),
        (Fault("retry.max", "is -1"), "retry.max: is -1"),
        (Fault("", "is not text", 3), "line 3: is not text"),
        (Fault("", "is not text"), "is not text"),
    ],
)
def test_fault_names_its_place(fault: Fault, line: str) -> None:
    assert str(fault) == line


def test_invalid_input_names_every_fault_at_once() -> None:
    refusal = RepoNotOwned("the manifest", [Fault("repo", "is theirs"), Fault("lock", "is odd")])
    assert refusal.detail == "the manifest is not valid: repo: is theirs; lock: is odd"
    assert (refusal.what, len(refusal.faults)) == ("the manifest", 2)
    assert isinstance(refusal, Invalid)


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (NotFound("job", "x"), "there is no job 'x'"),
        (NotFound("job", "x", "list them"), "there is no job 'x'; list them"),
        (IllegalTransition("j", "queued", "shipped"), "job j is queued and cannot become shipped"),
        (IllegalTransition("j", "a", "b", "wait"), "job j is a and cannot become b; wait"),
        (Cycle(["a", "b", "a"]), "the dependencies form a cycle: a → b → a"),
        (LogGap(9, expected=4), "the chunk starts at 9, but the log ends at 4: send from there"),
        (
            RangeNotSatisfiable(7),
            "the content has 7 bytes, none of them in the requested range",
        ),
        (TooManyRequests("slow down", retry_after_s=3), "slow down"),
    ],
)
def test_refusal_detail_names_the_cause(refusal: Refused, sentence: str) -> None:
    assert refusal.detail == sentence


def test_refusal_carries_machine_readable_fields() -> None:
    assert TrackerUnavailable("away", 60).retry_after_s == 60
    fenced = Fenced("j", request_epoch=1, current=2)
    assert (fenced.job_id, fenced.presented, fenced.current) == ("j", 1, 2)
    assert "stop the engine and quarantine the result" in fenced.detail
    assert LogGap(9, expected=4).expected == 4
    assert RangeNotSatisfiable(7).size == 7
    assert TooManyRequests("slow down", retry_after_s=3).retry_after_s == 3
    assert isinstance(fenced, Conflict)
