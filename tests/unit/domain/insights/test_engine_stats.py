"""Pairs of engines with profiles and repos: counted once, of first tries, month by month."""

from collections import defaultdict
from datetime import UTC, date, datetime

from gigafactory.domain.insights.engine_stats import months, pair_name, paired, rollups_by_group
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.domain.insights.tally import (
    RunCounts,
    Tally,
    TallyIncrement,
    add_to_tally,
    increment_for_run,
    key_prefix,
    tally_additions,
)
from gigafactory.domain.job.job import Result
from gigafactory.domain.job.run import Run
from tests.support.builders import NOON, a_run, after


def ended(job: str, result: Result = Result.OK, **fields: object) -> Run:
    told = {"id": f"{job}.1", "job_id": job, "ended_at": after(9), "result": result, "rev": 2}
    return a_run(**(told | fields))


def of(run: Run) -> TallyIncrement:
    told = increment_for_run(None, run)
    assert told is not None
    return told


def tallied(*runs: Run) -> dict[str, Tally]:
    book: dict[str, Tally] = {}
    before: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        told = of(run)
        for key, counts in paired(told, tally_additions(told, before[run.job_id])).items():
            book[key] = add_to_tally(book.get(key), key, counts)
        before[run.job_id].append(run)
    return book


def test_a_pair_counts_a_first_try_for_its_product_and_for_all_of_them() -> None:
    book = tallied(
        ended("a", repo="git@host:team/notes", profile="qa@1"),
        ended("b", Result.VERIFY_FAILED, repo="git@host:team/notes", engine="codex"),
    )
    for space in ("notes", "*"):
        start = key_prefix(space, pair_name(GroupBy.REPO), f"m{NOON:%Y-%m}")
        found = rollups_by_group(each for key, each in book.items() if key.startswith(start))
        [(repo, engines)] = found.items()
        assert repo == "git@host:team/notes", "a name keeps its slashes"
        assert [(one.group, one.first_passes, one.first_tries) for one in engines] == [
            ("claude", 1, 1),
            ("codex", 0, 1),
        ]
    start = key_prefix("*", pair_name(GroupBy.PROFILE), f"m{NOON:%Y-%m}")
    profiles = rollups_by_group(each for key, each in book.items() if key.startswith(start))
    assert {name: [one.group for one in rows] for name, rows in profiles.items()} == {
        "qa@1": ["claude"]
    }, "work without a profile is in what is said of all work"
    assert len(book) == 8, "nothing by day, and nothing since ever"


def test_a_later_try_and_what_says_nothing_of_the_work_count_for_no_pair() -> None:
    again = ended("a", id="a.2", number=2)
    assert len(tallied(ended("a", Result.CRASH), again)) == 4
    assert tallied(ended("b", Result.RATE_LIMITED)) == {}
    told = of(ended("c"))
    assert paired(told, tally_additions(told, [])) != {}
    only = RunCounts(shipped=1)
    assert paired(told, {key_prefix("notes", "total", "all") + "all": only}) == {}


def test_the_months_are_this_one_and_the_two_before() -> None:
    assert months(date(2026, 3, 31)) == ["m2026-03", "m2026-02", "m2026-01"]
    assert months(datetime(2026, 1, 1, tzinfo=UTC).date()) == ["m2026-01", "m2025-12", "m2025-11"]
