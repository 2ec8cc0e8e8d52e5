"""Runs and their usage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Invalid
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import (
    OTHER_TOOLS,
    TOOL_CHARS_MAX,
    TOOLS_MAX,
    USAGE_MAX,
    Usage,
    add_edited_lines,
    count_tool_call,
    end_run,
    newest_work,
    start_run,
)
from tests.support.builders import NOON, a_job, a_running_job, after


def test_usage_within_bounds_is_accepted() -> None:
    Usage().check()
    Usage(tokens_in=USAGE_MAX, cost_nano_usd=0, turns=3).check()


@given(st.integers(max_value=-1) | st.integers(min_value=USAGE_MAX + 1))
def test_usage_out_of_bounds_is_rejected_by_field(amount: int) -> None:
    usage = Usage(tokens_out=amount, cost_nano_usd=amount, tool_calls=amount)
    with pytest.raises(Invalid) as refusal:
        usage.check()
    assert [fault.field for fault in refusal.value.faults] == [
        "usage.tokensOut",
        "usage.costNanoUsd",
        "usage.toolCalls",
    ]


def test_invalid_tool_counts_are_rejected_by_name() -> None:
    Usage(tools={"mcp__notes__find": 3, OTHER_TOOLS: 0}).check()
    wrong = Usage(tools={"rm -rf": 1, "Bash": -1, "x" * (TOOL_CHARS_MAX + 1): 1})
    with pytest.raises(Invalid) as refusal:
        wrong.check()
    assert [fault.field for fault in refusal.value.faults] == [
        "usage.tools.rm -rf",
        "usage.tools.Bash",
        "usage.tools." + "x" * TOOL_CHARS_MAX,
    ]
    many = Usage(tools={f"tool-{number}": 1 for number in range(TOOLS_MAX + 2)})
    with pytest.raises(Invalid, match=r"usage\.tools"):
        many.check()


@given(st.lists(st.text() | st.sampled_from(["Bash", "Edit", OTHER_TOOLS]), max_size=200))
def test_tool_calls_are_counted_by_name_within_bounds(names: list[str]) -> None:
    tools: dict[str, int] = {}
    for name in names:
        tools = count_tool_call(tools, name)
    Usage(tools=tools).check()
    assert sum(tools.values()) == len(names)


def test_tools_beyond_the_limit_are_counted_together() -> None:
    tools: dict[str, int] = {}
    for number in range(TOOLS_MAX + 5):
        tools = count_tool_call(tools, f"tool-{number}")
    assert (len(tools), tools[OTHER_TOOLS]) == (TOOLS_MAX + 1, 5)
    assert count_tool_call(tools, "tool-0")["tool-0"] == 2


@pytest.mark.parametrize(
    ("usage", "any_"),
    [(Usage(engine="claude"), False), (Usage(turns=1), True), (Usage(cost_nano_usd=1), True)],
)
def test_usage_is_nonzero_if_any_amount_is(usage: Usage, *, any_: bool) -> None:
    assert usage.nonzero is any_


def test_token_total_counts_each_kind_once() -> None:
    used = Usage(
        tokens_in=1, tokens_cached=20, tokens_cache_write=300, tokens_out=4000, tokens_reasoning=9
    )
    assert used.tokens == 4321


def test_new_run_copies_the_fields_of_job_and_lease() -> None:
    run = start_run(a_running_job(runs=3, attempts=1, profile="qa@2"), {"score": 2})
    assert (run.attempt, run.profile, run.repo) == (2, "qa@2", a_running_job().ask.repo)
    assert (run.key, run.job_id, run.product_id) == ("job-1.1", "job-1", "notes")
    assert (run.factory_id, run.epoch, run.number, run.step) == ("mac-1", 1, 3, Step.RUN)
    assert (run.engine, run.granted_at, run.decision) == ("claude", NOON, {"score": 2})


def test_run_cannot_start_without_a_lease() -> None:
    with pytest.raises(AssertionError, match="a run begins with a lease"):
        start_run(a_job(), {})


def test_run_ends_only_once() -> None:
    run = start_run(a_running_job(), {})
    ended = end_run(run, Result.OK, None, now=after(5))
    assert ended == replace(run, ended_at=after(5), result=Result.OK, rev=2)
    assert end_run(ended, Result.LOST, "late", now=after(9)) == replace(ended, rev=3)


def test_edited_lines_are_added_to_the_newest_run_that_is_no_ship_step() -> None:
    first = start_run(a_running_job(runs=1), {})
    second, ship = replace(first, number=2), replace(first, number=3, step=Step.SHIP)
    assert newest_work([second, ship, first]) == second
    assert newest_work([ship]) is None
    assert add_edited_lines(add_edited_lines(second, 4), 2) == replace(
        second, edited_lines=6, rev=3
    )
