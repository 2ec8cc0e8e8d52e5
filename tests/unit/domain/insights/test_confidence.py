"""What few tries say: ranges that hold the truth, and advice only where nobody can doubt it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.insights.confidence import TRIES_MIN, advice, advised, wilson_interval
from gigafactory.domain.insights.run_rollup import NO_GROUP, GroupBy, RunRollup
from gigafactory.domain.job.job import Result
from tests.support.builders import a_run, after


def an_engine(name: str, passes: int, tries: int) -> RunRollup:
    return RunRollup(group=name, first_passes=passes, first_tries=tries)


def test_no_try_says_nothing() -> None:
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(
    ("passes", "tries", "low", "high"),
    # After the tables of the method itself, to three places.
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (720, 1000, 0.691, 0.747)],
)
def test_the_range_is_that_of_wilson(passes: int, tries: int, low: float, high: float) -> None:
    found = wilson_interval(passes, tries)
    assert found is not None
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)
    assert found.share == passes / tries


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_within_its_range_and_that_within_one(drawn: tuple[int, int]) -> None:
    found = wilson_interval(*drawn)
    assert found is not None
    assert 0 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1


def test_one_engine_alone_is_ahead_of_nobody_and_the_tries_that_there_are_are_told() -> None:
    few = an_engine("codex", TRIES_MIN - 1, TRIES_MIN - 1)
    told = advice([an_engine("claude", 40, 40), few, an_engine(NO_GROUP, 0, 90)])
    assert (told.engine, told.by, told.group, told.first_tries) == (None, "all", "all", 59)
    assert told.says == (
        "not enough runs: two engines with 20 first attempts each are needed,"
        " found claude 40, codex 19"
    )
    assert advice([]).says.endswith("are needed, found none")


def test_engines_that_are_close_are_not_told_apart() -> None:
    told = advice([an_engine("claude", 30, 40), an_engine("codex", 28, 40)])
    assert told.engine is None
    assert told.says == (
        "claude 75 % (n = 40, 95 % interval 60 to 86 %)"
        " and codex 70 % (n = 40, 95 % interval 55 to 82 %) are too close to tell apart"
    )


def test_an_engine_that_is_clearly_ahead_of_all_is_named_with_the_evidence() -> None:
    engines = [an_engine("codex", 10, 100), an_engine("claude", 95, 100), an_engine("pi", 30, 100)]
    told = advice(engines, GroupBy.REPO, "notes")
    assert (told.engine, told.by, told.group, told.first_tries) == ("claude", "repo", "notes", 300)
    assert told.says == (
        "claude passes at once in 95 % (n = 100, 95 % interval 89 to 98 %),"
        " more often than every other engine;"
        " next is pi 30 % (n = 100, 95 % interval 22 to 40 %)"
    )


def test_the_third_may_be_less_sure_than_the_second_and_still_too_close() -> None:
    sure, unsure = an_engine("codex", 600, 1000), an_engine("pi", 11, TRIES_MIN)
    assert advice([an_engine("claude", 700, 1000), sure]).engine == "claude"
    told = advice([an_engine("claude", 700, 1000), sure, unsure])
    assert told.engine is None
    assert "and pi 55 %" in told.says, "it names the one that is in the way"


def test_runs_say_for_each_repo_what_they_say_for_it_alone() -> None:
    """Over all, the engines are equal; in each repo the other one is far ahead."""
    runs = [
        a_run(
            id=f"{repo}-{engine}-{n}.1",
            job_id=f"{repo}-{engine}-{n}",
            repo=repo,
            engine=engine,
            ended_at=after(60),
            result=Result.OK if engine == best else Result.VERIFY_FAILED,
        )
        for repo, best in (("notes", "claude"), ("shop", "codex"))
        for engine in ("claude", "codex")
        for n in range(TRIES_MIN + (repo == "shop"))
    ]
    told = advised(
        [*runs, a_run(ended_at=after(60), result=Result.OK)], (GroupBy.DAY, GroupBy.REPO)
    )
    assert [(one.by, one.group, one.engine) for one in told] == [
        ("all", "all", None),
        ("repo", "shop", "codex"),
        ("repo", "notes", "claude"),
    ], "what rests on most comes first"
