"""Tallies: kept up run by run, they come to what adding up all runs comes to."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.insights.run_rollup import By, insights
from gigafactory.domain.insights.tally import (
    ALL,
    NOTHING,
    TALLIED,
    TOTAL,
    Counts,
    Tally,
    added_to,
    additions,
    page,
    periods,
    plus,
    rolled_up,
    shipped_slip,
    slip,
    together,
    totals,
)
from gigafactory.domain.job.job import Checkpoint, Result, Stage, Step
from gigafactory.domain.job.run import Review, Run, Usage
from tests.support.builders import NOON, a_job, a_run, after


class Book:
    """Tallies as a store would keep them."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}

    def note(self, before: Run | None, after: Run, earlier: Sequence[Run] = ()) -> None:
        told = slip(before, after)
        for key, counts in additions(told, earlier).items() if told else ():
            self.tallies[key] = added_to(self.tallies.get(key), key, counts)

    def read(self, space: str, by: str, period: str = ALL) -> list[Tally]:
        start = page(space, by, period)
        return [tally for key, tally in self.tallies.items() if key.startswith(start)]


def test_a_job_that_is_shipped_counts_once_where_its_newest_run_was() -> None:
    ended = Checkpoint(branch="b", commit="c", factory_id="mac-1")
    testing = a_job(stage=Stage.TESTING, engine="claude", checkpoint=ended, parent_id="plan")
    shipped = replace(testing, stage=Stage.SHIPPED, rev=testing.rev + 1, stage_since=NOON)
    told = shipped_slip(testing, shipped)
    assert told is not None
    assert told.counts == Counts(shipped=1)
    assert {*told.groups} == {*TALLIED}
    assert (told.groups["engine"], told.groups["factory"]) == ("claude", "mac-1")
    assert (told.groups["composite"], told.groups["profile"]) == ("plan", "none")
    found = rolled_up(
        Tally(key=key, counts=counts)
        for key, counts in additions(told, []).items()
        if key.startswith(page("*", TOTAL, ALL))
    )
    assert (found[ALL].shipped, found[ALL].runs, found[ALL].jobs) == (1, 0, 0)
    assert found[ALL].cost_of_shipped == 0
    assert replace(found[ALL], shipped=0).cost_of_shipped is None
    assert replace(found[ALL], shipped=2, cost_nano_usd=9).cost_of_shipped == 4


def test_the_first_defect_of_a_shipped_job_counts_on_the_day_of_its_shipping() -> None:
    shipped = a_job(stage=Stage.SHIPPED, engine="claude", stage_since=NOON)
    wrong = replace(shipped, defects=("revert:abc",), rev=shipped.rev + 1, updated_at=after(9))
    told = shipped_slip(shipped, wrong)
    assert told is not None
    assert told.counts == Counts(escaped=1)
    assert (told.groups["engine"], told.groups["day"]) == ("claude", NOON.date().isoformat())
    more = replace(wrong, defects=("revert:abc", "ticket:7"), rev=wrong.rev + 1)
    assert shipped_slip(wrong, more) is None, "a job lets defects through once"
    [total] = rolled_up(
        Tally(key=key, counts=counts)
        for key, counts in additions(told, []).items()
        if key.startswith(page("*", TOTAL, ALL))
    ).values()
    assert (total.escaped, total.shipped) == (1, 0)


def test_only_a_step_to_shipped_counts_and_a_composite_never() -> None:
    shipped = a_job(stage=Stage.SHIPPED)
    assert shipped_slip(shipped, replace(shipped, rev=shipped.rev + 1)) is None
    assert shipped_slip(None, a_job()) is None
    assert shipped_slip(None, replace(shipped, kind="composite")) is None
    alone = shipped_slip(None, shipped)
    assert alone is not None
    assert alone.groups["factory"] == "none"


def test_a_run_counts_when_it_ends_and_shipping_never() -> None:
    begun = a_run()
    assert slip(None, begun) is None
    assert slip(begun, replace(begun, usage=Usage(tokens_in=1), rev=2)) is None
    ended = replace(begun, ended_at=after(30), result=Result.OK, rev=2)
    told = slip(begun, ended)
    assert told is not None
    assert (told.ends, told.counts.runs, told.counts.wall_ms) == (True, 1, 30_000)
    assert slip(ended, replace(ended, rev=3)) is None
    assert slip(begun, replace(ended, step=Step.SHIP)) is None


def test_what_is_learned_after_the_end_corrects_the_tallies() -> None:
    book = Book()
    ended = a_run(ended_at=after(30), result=Result.LOST)
    book.note(a_run(), ended)
    late = replace(ended, usage=Usage(tokens_in=5, cost_nano_usd=7), rev=3)
    book.note(ended, late)
    less = replace(late, usage=Usage(tokens_in=4, cost_nano_usd=6), review=Review.REJECTED, rev=4)
    book.note(late, less)
    (total,) = rolled_up(book.read("notes", TOTAL)).values()
    assert (total.runs, total.jobs, total.results) == (1, 1, {"lost": 1})
    assert (total.tokens_in, total.cost_nano_usd, total.unmetered) == (4, 6, 0)
    assert (total.rejected, total.first_tries) == (1, 0)
    assert book.tallies["*/total/all/all"].rev == 3
    assert book.tallies["*/total/all/all"].product_id == "*"


def test_a_count_that_comes_to_nothing_is_not_kept() -> None:
    one = Counts(runs=1, results={"ok": 1})
    assert plus(one, one, -1) == NOTHING


def test_a_group_may_have_slashes() -> None:
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
def test_the_time_since_a_day_is_few_periods(since: date | None, expected: list[str]) -> None:
    assert periods(since, date(2026, 11, 16)) == expected


results = st.sampled_from([Result.OK, Result.CRASH, Result.LOST, Result.VERIFY_FAILED])
usages = st.none() | st.builds(
    Usage,
    tokens_in=st.integers(0, 9),
    cost_nano_usd=st.none() | st.integers(0, 9),
    estimated=st.booleans(),
)


@st.composite
def stories(draw: st.DrawFn) -> list[list[Run]]:
    """The runs of a few jobs, each job's in the order in which they ended."""
    told = []
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
        told.append([replace(run, product_id=product) for run in runs])
    return told


@given(stories())
def test_tallies_are_what_adding_up_all_runs_gives(told: list[list[Run]]) -> None:
    book = Book()
    for runs in told:
        for run in runs:
            book.note(replace(run, ended_at=None, result=None), run, runs)
    everything = [run for runs in told for run in runs]
    expected = insights(everything, TALLIED)
    assert list(rolled_up(book.read("*", TOTAL)).values()) == [expected.total]
    for by in TALLIED:
        assert tuple(rolled_up(book.read("*", by)).values()) == expected.by[by]
    for product in ("notes", "shop"):
        of_it = insights([run for run in everything if run.product_id == product], TALLIED)
        for by in TALLIED:
            assert tuple(rolled_up(book.read(product, by)).values()) == of_it.by[by]


@given(stories(), st.integers(0, 70))
def test_since_a_day_only_what_began_then_counts(told: list[list[Run]], days: int) -> None:
    book = Book()
    for runs in told:
        for run in runs:
            book.note(replace(run, ended_at=None, result=None), run, runs)
    since = (NOON + timedelta(days=days)).date()
    asked = periods(since, (NOON + timedelta(days=80)).date())
    counted: dict[str, int] = defaultdict(int)
    for by in (TOTAL, By.ENGINE):
        found = [tally for period in asked for tally in book.read("*", by, period)]
        counted[by] = sum(one.runs for one in rolled_up(found).values())
    everything = [run for runs in told for run in runs]
    late = [run for run in everything if run.granted_at.astimezone(UTC).date() >= since]
    assert counted == {TOTAL: len(late), By.ENGINE: len(late)}


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["ok", "crash"])), min_size=1))
def test_many_together_are_each_added_to_the_other(told: list[tuple[int, str]]) -> None:
    many = [Counts(runs=n, cost_nano_usd=2 * n, results={name: n} if n else {}) for n, name in told]
    added = NOTHING
    for one in many:
        added = plus(added, one)
    assert together(many) == added


def test_tallies_with_the_same_counts_get_the_same_sum() -> None:
    one, other = Counts(runs=1), Counts(runs=2, results={"ok": 2})
    summed = totals({"a": [one, other], "b": [one, other], "c": [one]})
    assert summed == {"a": together([one, other]), "b": together([one, other]), "c": one}
    assert summed["a"] is summed["b"]
