"""The job change that follows from a worker's report."""

import msgspec
import pytest

from gigafactory.domain.errors import Fenced, IllegalTransition
from gigafactory.domain.job.job import Job, Result, Stage, Terms
from gigafactory.domain.job.run import Run, start_run
from gigafactory.domain.job.worker_report import Report, change_for, own_checkpoint, run_after
from tests.support.builders import NOON, a_checkpoint, a_running_job, a_shipping_job, after


def a_report(**fields: object) -> Report:
    return msgspec.structs.replace(Report(job_id="job-1", epoch=1), **fields)


def assigned() -> Job:
    return a_running_job(stage=Stage.ASSIGNED)


def a_run(job: Job) -> Run:
    return start_run(job, {})


@pytest.mark.parametrize(
    ("report", "stage"),
    [
        ({"checkpoint": a_checkpoint(commit="new")}, Stage.BUILDING),
        ({"stage": Stage.REVIEW}, Stage.REVIEW),
        ({"stage": Stage.TESTING}, Stage.REVIEW),
        ({"stage": Stage.FAILED}, Stage.FAILED),
        ({"stage": Stage.FAILED, "result": Result.RATE_LIMITED}, Stage.QUEUED),
        ({"stage": Stage.QUEUED}, Stage.QUEUED),
    ],
)
def test_report_moves_the_job_to_the_reported_stage(
    report: dict[str, object], stage: Stage
) -> None:
    job = a_running_job(terms=Terms())
    change = change_for(job, "mac-1", a_report(**report), now=NOON)
    assert change is not None
    assert change.after.stage is stage


def test_starting_and_shipping_reports_move_the_job() -> None:
    begun = change_for(assigned(), "mac-1", a_report(stage=Stage.BUILDING), now=NOON)
    assert begun is not None
    assert begun.after.stage is Stage.BUILDING
    job = a_shipping_job()
    report = a_report(stage=Stage.SHIPPED, epoch=job.lease_epoch)
    shipped = change_for(job, "mac-1", report, now=NOON)
    assert shipped is not None
    assert shipped.after.stage is Stage.SHIPPED


def test_report_of_a_stage_not_open_to_workers_is_rejected() -> None:
    with pytest.raises(IllegalTransition, match="cannot report this"):
        change_for(a_running_job(), "mac-1", a_report(stage=Stage.CANCELLED), now=NOON)
    with pytest.raises(Fenced):
        change_for(a_running_job(), "mac-2", a_report(stage=Stage.REVIEW), now=NOON)


def test_run_records_its_start_usage_and_end() -> None:
    job = assigned()
    report = a_report(stage=Stage.BUILDING, versions={"git": "2.47.3"})
    change = change_for(job, "mac-1", report, now=after(1))
    assert change is not None
    run = run_after(a_run(job), change, report, now=after(1))
    assert run.versions == {"git": "2.47.3"}
    assert (run.started_at, run.ended_at, run.rev) == (after(1), None, 2)
    again = run_after(run, change, report, now=after(2))
    assert again.started_at == after(1)
    ended = a_report(stage=Stage.FAILED, verify={"passed": False}, wall_sec=2.0, cpu_sec=0.0)
    failed = change_for(change.after, "mac-1", ended, now=after(3))
    assert failed is not None
    last = run_after(run, failed, ended, now=after(3))
    assert (last.ended_at, last.result) == (after(3), Result.CRASH)
    assert last.verify == {"passed": False}
    assert (last.versions, last.wall_sec, last.cpu_sec) == (run.versions, 2.0, 0.0)


def test_run_result_is_the_one_the_worker_reported() -> None:
    job = a_running_job(terms=Terms(retry_max=0))
    report = a_report(stage=Stage.FAILED, result=Result.TIMEOUT, reason="slow")
    change = change_for(job, "mac-1", report, now=NOON)
    assert change is not None
    run = run_after(a_run(job), change, report, now=NOON)
    assert (run.result, run.reason) == (Result.TIMEOUT, "slow")


def test_a_checkpoint_belongs_to_the_factory_that_reports_it() -> None:
    forged = a_checkpoint("def", factory_id="victim-1", session_id="theirs")
    change = change_for(a_running_job(), "mac-1", a_report(checkpoint=forged), now=NOON)
    assert change is not None
    assert change.after.checkpoint == a_checkpoint("def", factory_id="mac-1", session_id="theirs")


def test_a_ship_step_leaves_the_session_with_the_factory_that_has_it() -> None:
    known = a_checkpoint("abc", factory_id="mac-2", session_id="s")
    assert own_checkpoint(
        "mac-1", a_checkpoint("def", factory_id="mac-2", session_id="s"), known
    ) == (a_checkpoint("def", factory_id="mac-2", session_id="s"))
    other_session = a_checkpoint("def", factory_id="mac-2", session_id="t")
    assert own_checkpoint("mac-1", other_session, known).factory_id == "mac-1"
