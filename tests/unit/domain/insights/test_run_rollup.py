"""Rollups of runs: nothing is counted twice, and unknown values stay unknown."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.insights.run_rollup import GroupBy, RunRollup, summarize_runs
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run, Usage
from tests.support.builders import NOON, after

NANO = 1


def a_run(**fields: object) -> Run:
    usual: dict[str, object] = {
        "id": "job-1.1",
        "job_id": "job-1",
        "product_id": "notes",
        "factory_id": "mac-1",
        "epoch": 1,
        "number": 1,
        "step": Step.RUN,
        "engine": "claude",
        "granted_at": NOON,
        "started_at": after(1),
        "ended_at": after(61),
        "result": Result.OK,
    }
    return Run(**(usual | fields))  # type: ignore[arg-type]


def total(*runs: Run) -> RunRollup:
    return summarize_runs(runs, ()).total


def test_usage_of_runs_is_summed_exactly() -> None:
    one = Usage(tokens_in=7, tokens_cached=1, tokens_out=2, cost_nano_usd=NANO)
    two = Usage(
        tokens_in=3,
        tokens_cache_write=4,
        tokens_reasoning=5,
        cost_nano_usd=10**15,
        estimated=True,
    )
    found = total(a_run(usage=one), a_run(id="job-1.2", number=2, usage=two, wall_sec=0.25))
    assert (found.tokens_in, found.tokens_cached, found.tokens_cache_write) == (10, 1, 4)
    assert (found.tokens_out, found.tokens_reasoning) == (2, 5)
    assert found.cost_nano_usd == 10**15 + 1
    assert (found.estimated, found.unmetered) == (1, 0)
    assert found.wall_sec == 60.25
    assert (found.runs, found.jobs) == (2, 1)


def test_unknown_costs_and_rates_are_not_estimated() -> None:
    found = total(a_run(usage=None), a_run(id="job-1.2", usage=Usage(tokens_in=1)))
    assert (found.cost_nano_usd, found.unmetered, found.estimated) == (0, 2, 0)
    nothing = total()
    assert (nothing.runs, nothing.results, nothing.first_pass_rate) == (0, {}, None)


def test_mean_wait_is_per_job_and_absent_without_waits() -> None:
    assert RunRollup(group="x", waits=4, wait_sec=10.0).mean_wait == 2.5
    assert RunRollup(group="x").mean_wait is None


def test_unfinished_run_counts_as_running_without_a_result() -> None:
    found = total(a_run(ended_at=None, result=None))
    assert (found.runs, found.running, found.results) == (1, 1, {})
    assert (found.wall_sec, found.unmetered, found.first_tries) == (0, 0, 0)


def test_run_that_never_started_lasts_from_its_grant() -> None:
    assert total(a_run(started_at=None, result=Result.LOST)).wall_sec == 61


def test_ship_steps_are_not_counted_as_runs() -> None:
    assert total(a_run(step=Step.SHIP, engine=None)).runs == 0


def test_first_pass_rate_uses_the_first_judged_run_of_each_job() -> None:
    runs = [
        a_run(id="a.3", job_id="a", number=3, result=Result.OK),
        a_run(id="a.1", job_id="a", number=1, result=Result.RATE_LIMITED),
        a_run(id="a.2", job_id="a", number=2, result=Result.VERIFY_FAILED),
        a_run(id="b.1", job_id="b", result=Result.LOST),
        a_run(id="b.2", job_id="b", number=2, result=Result.OK),
        a_run(id="c.1", job_id="c", result=Result.RELEASED),
    ]
    found = total(*runs)
    assert (found.first_passes, found.first_tries, found.first_pass_rate) == (1, 2, 0.5)
    assert (found.results["ok"], found.results["verify_failed"], found.results["lost"]) == (2, 1, 1)


def test_earlier_runs_are_left_out_but_still_count_as_first_tries() -> None:
    early = a_run(id="a.1", result=Result.CRASH, granted_at=NOON - timedelta(days=2))
    late = a_run(id="a.2", number=2, result=Result.OK)
    found = summarize_runs([early, late], (), since=NOON).total
    assert (found.runs, found.first_tries) == (1, 0)


def test_runs_are_grouped_by_each_dimension() -> None:
    runs = [
        a_run(id="a.1", job_id="a", engine="codex", repo="notes", profile="qa@1"),
        a_run(id="b.1", job_id="b", started_at=NOON + timedelta(days=1), repo="notes"),
        a_run(id="c.1", job_id="c", engine=None, started_at=None, product_id="other"),
    ]
    found = summarize_runs(runs, tuple(GroupBy)).by
    assert {by: [(one.group, one.runs) for one in groups] for by, groups in found.items()} == {
        "engine": [("claude", 1), ("codex", 1), ("none", 1)],
        "profile": [("none", 2), ("qa@1", 1)],
        "repo": [("none", 1), ("notes", 2)],
        "day": [(f"{NOON:%Y-%m-%d}", 2), (f"{NOON + timedelta(days=1):%Y-%m-%d}", 1)],
        "factory": [("mac-1", 3)],
        "product": [("notes", 2), ("other", 1)],
        "composite": [("none", 3)],
        "job": [("a", 1), ("b", 1), ("c", 1)],
    }


RUNS = st.lists(
    st.builds(
        a_run,
        job_id=st.sampled_from("abc"),
        id=st.uuids().map(str),
        number=st.integers(1, 9),
        engine=st.sampled_from([None, "claude", "codex"]),
        result=st.sampled_from(Result),
        usage=st.builds(Usage, tokens_in=st.integers(0, 10**15), cost_nano_usd=st.integers(0, 99)),
    )
)


@given(RUNS, st.sampled_from(GroupBy))
def test_groups_add_up_to_the_total(runs: list[Run], by: GroupBy) -> None:
    found = summarize_runs(runs, (by,))
    for part in ("runs", "tokens_in", "cost_nano_usd", "first_passes", "first_tries", "unmetered"):
        assert sum(getattr(one, part) for one in found.by[by]) == getattr(found.total, part)
    assert found.total.first_passes <= found.total.first_tries <= found.total.jobs
