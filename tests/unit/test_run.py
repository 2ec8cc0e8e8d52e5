"""Runs and what they used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Invalid
from gigafactory.domain.job import Result, Step
from gigafactory.domain.run import USAGE_MAX, Usage, begin, end
from tests.worlds import NOON, a_job, a_running_job, after


def test_usage_that_a_run_can_have_is_taken() -> None:
    Usage().check()
    Usage(tokens_in=USAGE_MAX, cost_nano_usd=0, turns=3).check()


@given(st.integers(max_value=-1) | st.integers(min_value=USAGE_MAX + 1))
def test_usage_that_no_run_can_have_is_refused_by_field(amount: int) -> None:
    usage = Usage(tokens_out=amount, cost_nano_usd=amount, tool_calls=amount)
    with pytest.raises(Invalid) as refusal:
        usage.check()
    assert [fault.field for fault in refusal.value.faults] == [
        "usage.tokensOut",
        "usage.costNanoUsd",
        "usage.toolCalls",
    ]


def test_a_run_stands_for_its_lease() -> None:
    run = begin(a_running_job(runs=3), {"score": 2})
    assert (run.key, run.job_id, run.product_id) == ("job-1.1", "job-1", "notes")
    assert (run.factory_id, run.epoch, run.number, run.step) == ("mac-1", 1, 3, Step.RUN)
    assert (run.engine, run.granted_at, run.decision) == ("claude", NOON, {"score": 2})


def test_without_a_lease_there_is_no_run() -> None:
    with pytest.raises(AssertionError, match="a run begins with a lease"):
        begin(a_job(), {})


def test_a_run_ends_once() -> None:
    run = begin(a_running_job(), {})
    ended = end(run, Result.OK, None, now=after(5))
    assert ended == replace(run, ended_at=after(5), result=Result.OK, rev=2)
    assert end(ended, Result.LOST, "late", now=after(9)) == replace(ended, rev=3)
