"""Tallies: updated run by run, they equal the rollup of all runs."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.insights.run_rollup import GroupBy, summarize_runs
from gigafactory.domain.insights.tally import (
    ALL,
    NO_COUNTS,
    TALLIED,
    TOTAL,
    RunCounts,
    Tally,
    add_counts,
    add_to_tally,
    covering_periods,
    increment_for_run,
    increment_for_shipping,
    key_prefix,
    roll_up_tallies,
    sum_counts,
    sum_counts_by_key,
    tally_additions,
)
from gigafactory.domain.job.job import Checkpoint, Result, Stage, Step
from gigafactory.domain.job.run import Review, Run, Usage
from tests.support.builders import NOON, a_job, a_run, after

pytestmark = pytest.mark.slow


class Book:
    """Tallies in a dictionary, updated as in a store."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def note(self, before: Run | None, after: Run, earlier: Sequence[Run] = ()) -> None:
        increment = increment_for_run(before, after)
        for key, counts in tally_additions(increment, earlier).items() if increment else ():
            self.tallies[key] = add_to_tally(self.tallies.get(key), key, counts)

    def read(self, space: str, by: str, period: str = ALL) -> list[Tally]:
        start = key_prefix(space, by, period)
        return [tally for key, tally in self.tallies.items() if key.startswith(start)]


def test_shipped_job_counts_once_in_the_groups_of_its_newest_run() -> None:
    ended = Checkpoint(branch="b", commit="c", factory_id="mac-1")
    testing = a_job(stage=Stage.TESTING, engine="claude", checkpoint=ended, parent_id="plan")
    shipped = replace(testing, stage=Stage.SHIPPED, rev=testing.rev + 1, stage_since=NOON)
    increment = increment_for_shipping(testing, shipped)
    assert increment is not None
    assert increment.counts == RunCounts(shipped=1)
    assert {*increment.groups} == {*TALLIED}
    assert (increment.groups["engine"], increment.groups["factory"]) == ("claude", "mac-1")
    assert (increment.groups["composite"], increment.groups["profile"]) == ("plan", "none")
    found = roll_up_tallies(
        Tally(key=key, counts=counts)
        for key, counts in tally_additions(increment, []).items()
        if key.startswith(key_prefix("*", TOTAL, ALL))
    )
    assert (found[ALL].shipped, found[ALL].runs, found[ALL].jobs) == (1, 0, 0)
    assert found[ALL].cost_per_shipped == 0
    assert replace(found[ALL], shipped=0).cost_per_shipped is None
    assert replace(found[ALL], shipped=2, cost_nano_usd=9).cost_per_shipped == 4


def test_first_defect_of_a_shipped_job_counts_on_its_ship_day() -> None:
    shipped = a_job(stage=Stage.SHIPPED, engine="claude", stage_since=NOON)
    wrong = replace(shipped, defects=("revert:abc",), rev=shipped.rev + 1, updated_at=after(9))
    increment = increment_for_shipping(shipped, wrong)
    assert increment is not None
    assert increment.counts == RunCounts(escaped=1)
    assert (increment.groups["engine"], increment.groups["day"]) == (
        "claude",
        NOON.date().isoformat(),
    )
    more = replace(wrong, defects=("revert:abc", "ticket:7"), rev=wrong.rev + 1)
    assert increment_for_shipping(wrong, more) is None, "a job lets defects through once"
    [total] = roll_up_tallies(
        Tally(key=key, counts=counts)
        for key, counts in tally_additions(increment, []).items()
        if key.startswith(key_prefix("*", TOTAL, ALL))
    ).values()
    assert (total.escaped, total.shipped) == (1, 0)


def test_only_the_move_to_shipped_of_a_leaf_job_counts() -> None:
    shipped = a_job(stage=Stage.SHIPPED)
    assert increment_for_shipping(shipped, replace(shipped, rev=shipped.rev + 1)) is None
    assert increment_for_shipping(None, a_job()) is None
    assert increment_for_shipping(None, replace(shipped, kind="composite")) is None
    alone = increment_for_shipping(None, shipped)
    assert alone is not None
    assert alone.groups["factory"] == "none"


def test_run_counts_when_it_ends_and_ship_steps_never() -> None:
    begun = a_run()
    assert increment_for_run(None, begun) is None
    assert increment_for_run(begun, replace(begun, usage=Usage(tokens_in=1), rev=2)) is None
    ended = replace(begun, ended_at=after(30), result=Result.OK, rev=2)
    increment = increment_for_run(begun, ended)
    assert increment is not None
    assert (increment.ends_run, increment.counts.runs, increment.counts.wall_ms) == (
        True,
        1,
        30_000,
    )
    assert increment_for_run(ended, replace(ended, rev=3)) is None
    assert increment_for_run(begun, replace(ended, step=Step.SHIP)) is None


def test_reports_after_the_end_of_a_run_correct_the_tallies() -> None:
    book = Book()
    ended = a_run(ended_at=after(30), result=Result.LOST)
    book.note(a_run(), ended)
    late = replace(ended, usage=Usage(tokens_in=5, cost_nano_usd=7), rev=3)
    book.note(ended, late)
    less = replace(late, usage=Usage(tokens_in=4, cost_nano_usd=6), review=Review.REJECTED, rev=4)
    book.note(late, less)
    (total,) = roll_up_tallies(book.read("notes", TOTAL)).values()
    assert (total.runs, total.jobs, total.results) == (1, 1, {"lost": 1})
    assert (total.tokens_in, total.cost_nano_usd, total.unmetered) == (4, 6, 0)
    assert (total.rejected, total.first_tries) == (1, 0)
    assert book.tallies["*/total/all/all"].rev == 3
    assert book.tallies["*/total/all/all"].product_id == "*"


def test_zero_counts_are_dropped() -> None:
    one = RunCounts(runs=1, results={"ok": 1})
    assert add_counts(one, one, -1) == NO_COUNTS


def test_tally_group_may_contain_slashes() -> None:
    assert Tally(key="notes/repo/all/git@host:a/b.git").group == "git@host:a/b.git"


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, ["all"]),
        (date(2026, 11, 15), ["d2026-11-15", "d2026-11-16"]),
        (date(2026, 11, 17), []),
        (date(2026, 9, 29), ["d2026-09-29", "d2026-09-30", "m2026-10", "m2026-11"]),
        (date(2025, 12, 31), ["d2025-12-31", *(f"m2026-{month:02}" for month in range(1, 12))]),
    ],
)
def test_periods_since_a_day_use_whole_months_where_possible(
    since: date | None, expected: list[str]
) -> None:
    assert covering_periods(since, date(2026, 11, 16)) == expected


results = st.sampled_from([Result.OK, Result.CRASH, Result.LOST, Result.VERIFY_FAILED])
usages = st.none() | st.builds(
    Usage,
    tokens_in=st.integers(0, 9),
    cost_nano_usd=st.none() | st.integers(0, 9),
    estimated=st.booleans(),
)


@st.composite
def stories(draw: st.DrawFn) -> list[list[Run]]:
    """Draw the runs of a few jobs, in the order in which they ended."""
    items = []
    for job in range(draw(st.integers(1, 4))):
        runs = []
        for number in range(1, draw(st.integers(1, 4)) + 1):
            granted = NOON + timedelta(days=draw(st.integers(0, 70)))
            runs.append(
                a_run(
                    id=f"job-{job}.{number}",
                    job_id=f"job-{job}",
                    product_id=draw(st.sampled_from(["notes", "shop"])) if number == 1 else "",
                    number=number,
                    engine=draw(st.sampled_from(["claude", "codex", None])),
                    profile=draw(st.sampled_from(["qa@1", None])),
                    repo=draw(st.sampled_from(["a/b", None])),
                    factory_id=draw(st.sampled_from(["mac-1", "mac-2"])),
                    parent_id=draw(st.sampled_from(["epic", None])),
                    granted_at=granted,
                    ended_at=granted + timedelta(seconds=draw(st.integers(0, 100))),
                    result=draw(results),
                    usage=draw(usages),
                    review=draw(st.none() | st.sampled_from(Review)),
                )
            )
        product = runs[0].product_id
        items.append([replace(run, product_id=product) for run in runs])
    return items


@given(stories())
def test_tallies_equal_the_rollup_of_all_runs(told: list[list[Run]]) -> None:
    book = Book()
    for runs in told:
        for run in runs:
            book.note(replace(run, ended_at=None, result=None), run, runs)
    everything = [run for runs in told for run in runs]
    expected = summarize_runs(everything, TALLIED)
    assert list(roll_up_tallies(book.read("*", TOTAL)).values()) == [expected.total]
    for by in TALLIED:
        assert tuple(roll_up_tallies(book.read("*", by)).values()) == expected.by[by]
    for product in ("notes", "shop"):
        of_it = summarize_runs([run for run in everything if run.product_id == product], TALLIED)
        for by in TALLIED:
            assert tuple(roll_up_tallies(book.read(product, by)).values()) == of_it.by[by]


@given(stories(), st.integers(0, 70))
def test_tallies_since_a_day_count_only_runs_granted_since_then(
    told: list[list[Run]], days: int
) -> None:
    book = Book()
    for runs in told:
        for run in runs:
            book.note(replace(run, ended_at=None, result=None), run, runs)
    since = (NOON + timedelta(days=days)).date()
    asked = covering_periods(since, (NOON + timedelta(days=80)).date())
    counted: dict[str, int] = defaultdict(int)
    for by in (TOTAL, GroupBy.ENGINE):
        found = [tally for period in asked for tally in book.read("*", by, period)]
        counted[by] = sum(one.runs for one in roll_up_tallies(found).values())
    everything = [run for runs in told for run in runs]
    late = [run for run in everything if run.granted_at.astimezone(UTC).date() >= since]
    assert counted == {TOTAL: len(late), GroupBy.ENGINE: len(late)}


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["ok", "crash"])), min_size=1))
def test_sum_counts_equals_adding_counts_one_by_one(told: list[tuple[int, str]]) -> None:
    many = [
        RunCounts(runs=n, cost_nano_usd=2 * n, results={name: n} if n else {}) for n, name in told
    ]
    added = NO_COUNTS
    for one in many:
        added = add_counts(added, one)
    assert sum_counts(many) == added


def test_tallies_with_the_same_counts_get_the_same_sum() -> None:
    one, other = RunCounts(runs=1), RunCounts(runs=2, results={"ok": 2})
    summed = sum_counts_by_key({"a": [one, other], "b": [one, other], "c": [one]})
    assert summed == {"a": sum_counts([one, other]), "b": sum_counts([one, other]), "c": one}
    assert summed["a"] is summed["b"]
