"""Comparison of engines: a clear winner at comparable jobs, or the reason why none is clear."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.insights.effect_estimate import TRIES_MIN
from gigafactory.domain.insights.engine_advice import Advice
from gigafactory.domain.insights.engine_comparison import compare_engines
from gigafactory.domain.insights.observation import (
    Cell,
    Observation,
    TaskFeatures,
    observe_first_tries,
)
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run
from tests.support.builders import a_run, after
from tests.support.observations import NOTES, a_cell, an_observation

SMALL, LARGE = replace(NOTES, size="small"), replace(NOTES, size="large")


def attempts(
    engine: str, passes: int, tries: int, task: TaskFeatures = NOTES, factory: str = "mac-1"
) -> tuple[Cell, Observation]:
    return a_cell(engine, factory, task), an_observation(tries, passes)


def overall(*known: tuple[Cell, Observation]) -> Advice:
    (advice,) = compare_engines(known)
    return advice


def test_advice_needs_two_engines_with_enough_first_attempts() -> None:
    found = overall(
        attempts("codex", TRIES_MIN - 1, TRIES_MIN - 1),
        attempts("claude", 40, 40),
        attempts("pi", 0, 0),
    )
    assert (found.engine, found.by, found.group, found.first_tries) == (None, "all", "all", 59)
    assert found.says == (
        "not enough runs: two engines with 20 first attempts each are needed,"
        " found claude 40, codex 19"
    )
    assert overall().says.endswith("are needed, found none")


def test_clear_winner_is_named_with_rate_interval_and_count() -> None:
    found = overall(
        attempts("codex", 10, 100), attempts("claude", 95, 100), attempts("pi", 30, 100)
    )
    assert (found.engine, found.first_tries) == ("claude", 300)
    assert found.says == (
        "claude passes 95 % of first attempts (n = 100): at comparable jobs 52 points more than pi,"
        " the next best (n = 100, 95 % interval 43\u201360)"
    )


def test_close_engines_have_no_winner() -> None:
    found = overall(attempts("claude", 30, 40), attempts("codex", 28, 40))
    assert found.engine is None
    assert found.says == (
        "no engine is clearly better: claude (n = 40) and codex (n = 40) differ by 2 points"
        " at comparable jobs (95 % interval -11 to 16)"
    )
    assert overall(attempts("claude", 28, 40), attempts("codex", 30, 40)).engine is None


def test_order_of_engines_does_not_change_the_advice() -> None:
    known = [attempts("claude", 10, 100), attempts("codex", 95, 100)]
    assert compare_engines(known) == compare_engines(reversed(known))
    assert overall(*known).engine == "codex"


def test_winner_must_beat_every_other_engine() -> None:
    clear = [attempts("claude", 700, 1000), attempts("codex", 600, 1000)]
    assert overall(*clear).engine == "claude"
    found = overall(*clear, attempts("pi", 11, TRIES_MIN))
    assert found.engine is None
    assert "claude (n = 1000) and pi (n = 20) differ" in found.says, "it names the close rival"


def test_attempts_on_several_factories_and_in_several_months_add_up() -> None:
    known = [
        attempts("claude", 25, 25),
        attempts("claude", 25, 25, factory="mac-2"),
        attempts("codex", 5, 25),
        attempts("codex", 5, 25),
    ]
    assert overall(*known).engine == "claude"
    assert overall(*known).first_tries == 100


def test_easy_jobs_do_not_make_an_engine_look_better() -> None:
    known = [
        attempts("claude", 90, 100, SMALL),
        attempts("claude", 6, 20, LARGE),
        attempts("codex", 18, 20, SMALL),
        attempts("codex", 30, 100, LARGE),
    ]
    assert overall(*known).engine is None, "80 % against 40 %, but equal at comparable jobs"


def test_engines_without_comparable_jobs_are_not_compared() -> None:
    found = overall(attempts("claude", 100, 100, SMALL), attempts("codex", 10, 100, LARGE))
    assert found.engine is None
    assert found.says == (
        "no engine is clearly better: claude (n = 100) and codex (n = 100) have too few first"
        " attempts at comparable jobs, 20 each are needed"
    )


@pytest.mark.parametrize(("passes", "winner"), [(15, None), (30, "claude")])
def test_single_attempts_at_many_kinds_of_jobs_are_compared_by_their_spread(
    passes: int, winner: str | None
) -> None:
    tasks = [TaskFeatures("notes", f"repo-{number}") for number in range(30)]
    known = [attempts("claude", int(n < passes), 1, task) for n, task in enumerate(tasks)]
    known += [attempts("codex", int(n % 5 == 0), 1, task) for n, task in enumerate(tasks)]
    assert overall(*known).engine == winner


def a_first_run(repo: str, engine: str, number: int, result: Result) -> Run:
    job = f"{repo}-{engine}-{number}"
    fields = {"repo": repo, "engine": engine, "ended_at": after(60), "result": result}
    return a_run(id=f"{job}.1", job_id=job, **fields)


def test_each_repo_gets_its_own_advice_most_attempts_first() -> None:
    """Use engines that are equal overall, while a different one is far better in each repo."""
    runs = [
        a_first_run(repo, engine, n, Result.OK if engine == best else Result.VERIFY_FAILED)
        for repo, best in (("notes", "claude"), ("shop", "codex"))
        for engine in ("claude", "codex")
        for n in range(TRIES_MIN + (repo == "shop"))
    ]
    no_repo = a_run(ended_at=after(60), result=Result.OK, profile="qa@2")
    known = observe_first_tries([*runs, no_repo])
    found = compare_engines(known, (GroupBy.DAY, GroupBy.REPO))
    assert [(one.by, one.group, one.engine) for one in found] == [
        ("all", "all", None),
        ("repo", "shop", "codex"),
        ("repo", "notes", "claude"),
    ]
    *_, profile = compare_engines(known, (GroupBy.PROFILE,))
    assert (profile.by, profile.group, profile.first_tries) == ("profile", "qa", 1)


def test_only_the_first_judged_run_of_a_job_is_observed() -> None:
    first = a_first_run("notes", "claude", 1, Result.RATE_LIMITED)
    second = replace(first, id="x.2", number=2, result=Result.VERIFY_FAILED)
    third = replace(first, id="x.3", number=3, result=Result.OK)
    shipped = replace(first, id="x.4", number=4, result=Result.OK, step=Step.SHIP)
    ((cell, observation),) = observe_first_tries([third, second, first, shipped])
    assert (cell.choice.engine, observation.tries, observation.passes) == ("claude", 1, 0)
    assert observe_first_tries([replace(second, engine=None)]) == []
