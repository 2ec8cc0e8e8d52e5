"""Failures: which are retried and when, which do not count, and which end a job."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.errors import Forbidden
from gigafactory.domain.job.job import Exclusion, Preemption, Result, Stage, Step, Terms
from gigafactory.domain.job.lease import EXCLUSION_TTL, grant
from gigafactory.domain.job.lifecycle import format_time
from gigafactory.domain.job.retry import (
    BACKOFF_MAX,
    DEFAULT_RETRY_ON,
    NEVER_RETRIED,
    OVERLOAD_BACKOFF,
    UNCOUNTED_RESULTS,
    backoff,
)
from gigafactory.domain.job.run_outcome import (
    NO_PROGRESS,
    WORKER_RESULTS,
    Progress,
    fail,
)
from tests.support.builders import (
    NOON,
    TTL,
    a_checkpoint,
    a_job,
    a_running_job,
    a_shipping_job,
    after,
)

TWICE = Terms(retry_max=2, retry_backoff_s=10)
FAULTS = sorted(WORKER_RESULTS - UNCOUNTED_RESULTS)
BLAMELESS = sorted(UNCOUNTED_RESULTS)
ASKED_BACK = Preemption(by="job-9", reason="critical", deadline=after(60))


def test_retryable_failure_is_queued_again_after_its_back_off() -> None:
    job = a_running_job(terms=TWICE, attempts=0, lost=2, preemption=ASKED_BACK)
    progress = Progress(checkpoint=a_checkpoint("def"))
    change = fail(job, "mac-1", 1, Result.CRASH, "exit 1", progress, now=after(5))
    after_ = change.after
    due = after(5) + backoff(job, 1)
    assert (after_.stage, after_.attempts, after_.not_before) == (Stage.QUEUED, 1, due)
    assert (after_.lease, after_.preemption, after_.lost) == (None, None, 0)
    assert (after_.result, after_.reason, after_.head) == (Result.CRASH, "exit 1", "def")
    assert change.free == ("slot/mac-1/0",)
    assert [event.type for event in change.events] == ["checkpoint", "retry_scheduled"]
    assert change.events[1].data == {
        "factoryId": "mac-1",
        "epoch": 1,
        "result": "crash",
        "reason": "exit 1",
        "attempt": 1,
        "of": 2,
        "notBefore": format_time(due),
    }


def test_exhausted_retries_dead_letter_the_job_with_the_last_result() -> None:
    job = a_running_job(terms=TWICE, attempts=2)
    change = fail(job, "mac-1", 1, Result.TIMEOUT, "too slow", NO_PROGRESS, now=NOON)
    assert (change.after.stage, change.after.attempts) == (Stage.DEAD_LETTER, 3)
    assert (change.after.result, change.after.reason) == (Result.RETRIES_EXHAUSTED, "too slow")
    (event,) = change.events
    assert (event.type, event.data["last"], event.data["attempts"]) == (
        "dead_lettered",
        "timeout",
        3,
    )
    assert change.free == ("slot/mac-1/0", "name/notes/fix-login")


@pytest.mark.parametrize("result", FAULTS)
def test_failure_without_retries_is_final(result: Result) -> None:
    change = fail(a_running_job(), "mac-1", 1, result, "why", NO_PROGRESS, now=NOON)
    assert (change.after.stage, change.after.result) == (Stage.FAILED, result)
    assert (change.after.lease, change.after.reason) == (None, "why")
    assert change.free == ("slot/mac-1/0", "name/notes/fix-login")
    own_name = result in {Result.SCOPE_VIOLATION, Result.BUDGET_EXCEEDED}
    assert [event.type for event in change.events] == [result if own_name else "failed"]


@pytest.mark.parametrize("result", FAULTS)
def test_only_default_retryable_results_are_retried_by_default(result: Result) -> None:
    change = fail(a_running_job(terms=TWICE), "mac-1", 1, result, "why", NO_PROGRESS, now=NOON)
    assert change.after.stage is (Stage.QUEUED if result in DEFAULT_RETRY_ON else Stage.FAILED)


@pytest.mark.parametrize("result", FAULTS)
def test_manifest_chooses_retried_results_except_those_never_retried(result: Result) -> None:
    terms = Terms(retry_max=2, retry_on=(Result.NO_CHANGE, *NEVER_RETRIED))
    change = fail(a_running_job(terms=terms), "mac-1", 1, result, "why", NO_PROGRESS, now=NOON)
    assert change.after.stage is (Stage.QUEUED if result is Result.NO_CHANGE else Stage.FAILED)


@pytest.mark.parametrize("result", BLAMELESS)
def test_blameless_result_hands_the_job_back_without_an_attempt(result: Result) -> None:
    change = fail(a_running_job(), "mac-1", 1, result, "why", NO_PROGRESS, now=NOON)
    assert (change.after.stage, change.after.attempts) == (Stage.QUEUED, 0)
    assert (change.after.result, change.after.lease) == (result, None)
    assert change.after.exclusions == (Exclusion("mac-1", NOON + EXCLUSION_TTL),)
    waits = result is Result.OVERLOADED
    assert change.after.not_before == (NOON + OVERLOAD_BACKOFF if waits else None)


def test_overloaded_engine_sets_its_own_wait() -> None:
    job = a_running_job()
    wait = timedelta(seconds=7)
    for result, due in ((Result.OVERLOADED, after(7)), (Result.RATE_LIMITED, None)):
        change = fail(job, "mac-1", 1, result, "", NO_PROGRESS, now=NOON, retry_after=wait)
        assert change.after.not_before == due


@pytest.mark.parametrize("result", sorted(set(Result) - WORKER_RESULTS))
def test_worker_cannot_report_a_result_that_only_others_decide(result: Result) -> None:
    with pytest.raises(Forbidden, match=f"cannot report the result {result}; it may report"):
        fail(a_running_job(), "mac-1", 1, result, "why", NO_PROGRESS, now=NOON)


def test_failure_before_the_run_started_counts_as_an_attempt() -> None:
    job = a_running_job(stage=Stage.ASSIGNED, terms=TWICE)
    change = fail(job, "mac-1", 1, Result.SETUP_FAILED, "no disk", NO_PROGRESS, now=NOON)
    assert (change.after.stage, change.after.attempts) == (Stage.QUEUED, 1)


def test_ship_conflict_waits_in_testing_with_its_reason() -> None:
    job = a_shipping_job(result=Result.OK)
    change = fail(job, "mac-1", 2, Result.MERGE_CONFLICT, "README.md", NO_PROGRESS, now=NOON)
    after_ = change.after
    assert (after_.stage, after_.step, after_.ship) == (Stage.TESTING, None, None)
    assert (after_.result, after_.reason) == (Result.MERGE_CONFLICT, "README.md")
    assert (after_.lease, after_.attempts, after_.exclusions) == (None, 0, ())
    assert change.free == ("slot/mac-1/0",)
    assert [event.type for event in change.events] == ["ship_failed"]


def test_released_ship_step_is_tried_on_another_factory() -> None:
    job = a_shipping_job(result=Result.OK)
    change = fail(job, "mac-1", 2, Result.RELEASED, "drained", NO_PROGRESS, now=NOON)
    assert (change.after.stage, change.after.step) == (Stage.TESTING, Step.SHIP)
    assert (change.after.result, change.after.lease) == (Result.OK, None)
    assert change.after.exclusions == (Exclusion("mac-1", NOON + EXCLUSION_TTL),)
    assert [event.type for event in change.events] == ["released"]


@given(st.text(), st.floats(0, 1e300), st.integers(1, 10_000))
def test_back_off_is_bounded_repeatable_and_in_whole_milliseconds(
    job_id: str, seconds: float, attempt: int
) -> None:
    job = a_job(id=job_id, terms=Terms(retry_backoff_s=seconds))
    wait = backoff(job, attempt)
    assert wait == backoff(job, attempt)
    assert timedelta(0) <= wait <= BACKOFF_MAX
    assert wait % timedelta(milliseconds=1) == timedelta(0)


@given(st.text(), st.integers(1, 60), st.integers(1, 6))
def test_back_off_doubles_with_a_small_spread(job_id: str, seconds: int, attempt: int) -> None:
    wait = backoff(a_job(id=job_id, terms=Terms(retry_backoff_s=seconds)), attempt)
    plain = timedelta(seconds=seconds * 2 ** (attempt - 1))
    assert min(plain, BACKOFF_MAX) <= wait <= min(plain * 1.25, BACKOFF_MAX)


@given(st.integers(0, 5), st.integers(1, 60))
def test_job_that_always_crashes_runs_retry_max_plus_one_times(
    retry_max: int, seconds: int
) -> None:
    job = a_job(terms=Terms(retry_max=retry_max, retry_backoff_s=seconds))
    now, runs = NOON, 0
    while not job.finished:
        now = job.not_before or now
        job = grant(job, "mac-1", "a", None, now=now, ttl=TTL).after
        job = fail(job, "mac-1", job.lease_epoch, Result.CRASH, "", NO_PROGRESS, now=now).after
        runs += 1
    assert runs == job.attempts == job.runs == retry_max + 1
    assert job.stage is (Stage.DEAD_LETTER if retry_max else Stage.FAILED)
