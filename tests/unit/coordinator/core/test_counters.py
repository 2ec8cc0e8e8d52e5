"""Metrics of a coordinator: a bounded number of series that match the committed changes."""

from msgspec.structs import replace

from gigafactory.coordinator.core.counters import OTHER_LABELS, Counters, Histogram, LabelLimit
from gigafactory.domain.job.change import JobChange, KeyTaken, RecordChange, StaleRevision, Stored
from gigafactory.domain.job.job import Result, Stage
from gigafactory.domain.job.run import Usage
from tests.support.builders import (
    a_job,
    a_lease,
    a_run,
    a_running_job,
    a_shipping_job,
    after,
    an_event,
)


def test_label_names_beyond_the_limit_share_one_series() -> None:
    names = LabelLimit(2)
    assert [names(name) for name in ("a", "b", "c", "a", None)] == [
        "a",
        "b",
        OTHER_LABELS,
        "a",
        "none",
    ]


def test_histogram_bounds_are_inclusive_and_negative_values_count_as_zero() -> None:
    histogram = Histogram((1.0, 5.0))
    for value in (1.0, 4.0, 7.0, -3.0):
        histogram.observe(value, "x")
    counts, total = histogram.series()["x",]
    assert list(counts) == [2, 1, 1]
    assert total == 12.0


def test_wait_is_counted_from_the_time_a_job_could_start() -> None:
    counters = Counters()
    queued = a_job(not_before=after(60))
    given = a_running_job(stage=Stage.ASSIGNED)
    event = an_event(given, "assigned", at=after(64))
    counters.count_commit(
        "grant", [JobChange(before=queued, after=given, events=(event,))], Stored(1), 0.1
    )
    counts, total = counters.wait_s.series()["notes",]
    assert (sum(counts), total) == (1, 4.0)
    assert counters.waits == {
        ("notes", "engine", "claude"): (1, 4.0),
        ("notes", "profile", "none"): (1, 4.0),
        ("notes", "repo", "none"): (1, 4.0),
        ("notes", "factory", "mac-1"): (1, 4.0),
    }


def test_wait_for_a_ship_step_counts_for_no_engine() -> None:
    counters = Counters()
    ships = a_shipping_job()
    change = JobChange(
        before=replace(ships, lease=None),
        after=ships,
        events=(an_event(ships, "assigned", at=after(9)),),
    )
    counters.count_commit("grant", [change], Stored(1), 0.0)
    assert (counters.waits, counters.wait_s.series()["notes",][1]) == ({}, 9.0)


def test_waiting_for_a_busy_seat_does_not_count_as_slow_assignment() -> None:
    counters = Counters()
    busy = a_running_job(id="job-0")
    ended = replace(busy, lease=None, stage=Stage.REVIEW, updated_at=after(100))
    counters.count_commit("report", [JobChange(before=busy, after=ended)], Stored(1), 0.0)
    given = a_running_job(stage=Stage.ASSIGNED)
    change = JobChange(
        before=a_job(), after=given, events=(an_event(given, "assigned", at=after(101)),)
    )
    counters.count_commit("grant", [change], Stored(2), 0.0)
    assert counters.assign_s.series()["notes",][1] == 1.0
    assert counters.wait_s.series()["notes",][1] == 101.0


def test_job_with_a_lock_is_left_out_of_the_assignment_time() -> None:
    counters = Counters()
    given = a_running_job(stage=Stage.ASSIGNED, lock="db")
    change = JobChange(
        before=a_job(lock="db"), after=given, events=(an_event(given, "assigned", at=after(9)),)
    )
    counters.count_commit("grant", [change], Stored(2), 0.0)
    assert not counters.assign_s.series()


def test_double_leases_and_double_ships_are_counted_as_violations() -> None:
    counters = Counters()
    other = a_running_job(lease=a_lease(factory_id="mac-2", epoch=2))
    twice = JobChange(before=a_running_job(), after=other, events=(an_event(other, "assigned"),))
    shipped = a_job(stage=Stage.SHIPPED)
    again = JobChange(before=shipped, after=shipped, events=(an_event(shipped, "shipped"),))
    counters.count_commit("grant", [twice, again], Stored(2), 0.0)
    assert counters.violations == {"double_lease": 1, "double_ship": 1}


def test_only_lost_grants_count_as_claim_conflicts() -> None:
    counters = Counters()
    counters.count_commit("grant", (), StaleRevision("job-1"), 0.0)
    counters.count_commit("grant", (), KeyTaken("lock/x", "job-2"), 0.0)
    counters.count_commit("report", (), StaleRevision("job-1"), 0.0)
    assert counters.claim_conflicts == {"moved": 1, "held": 1}


def test_cost_counter_grows_with_usage_and_never_falls() -> None:
    counters = Counters()
    runs = [a_run(usage=Usage(cost_nano_usd=cost, tokens_in=cost)) for cost in (5, 9, 7)]
    before = a_run()
    for run in runs:
        counters.count_commit("report", [RecordChange(before=before, after=run)], Stored(1), 0.0)
        before = run
    assert counters.cost_nano_usd["notes", "claude"] == 9
    assert counters.tokens["claude", "in"] == 9


def test_end_of_a_run_is_counted_once() -> None:
    counters = Counters()
    ended = a_run(ended_at=after(30), result=Result.OK)
    counters.count_commit("report", [RecordChange(before=a_run(), after=ended)], Stored(1), 0.0)
    late = replace(ended, usage=Usage(tokens_in=1), rev=3)
    counters.count_commit("late-usage", [RecordChange(before=ended, after=late)], Stored(1), 0.0)
    assert counters.run_s.series()["claude", "ok"][1] == 30.0
    assert counters.first_tries == {("notes", "passed"): 1}
