"""Target waits: the time by which a job should start, and the explanation of a late one."""

from datetime import timedelta

from gigafactory.domain.job.job import Priority, Stage
from gigafactory.domain.scheduler.explain import explain
from gigafactory.domain.tenancy.product import Product
from gigafactory.domain.tenancy.target_wait import target_start
from tests.support.builders import NOON, a_factory, a_job, a_running_job, after
from tests.support.small_fleet import a_fleet, a_queue

FIVE_MINUTES = timedelta(minutes=5)
HASTY = Product(id="notes", target_wait={Priority.CRITICAL: FIVE_MINUTES})


def test_target_start_is_the_target_wait_after_waiting_began() -> None:
    job = a_job(priority=Priority.CRITICAL)
    assert target_start(job, HASTY) == job.stage_since + FIVE_MINUTES


def test_back_off_does_not_count_towards_the_target_wait() -> None:
    job = a_job(priority=Priority.CRITICAL, not_before=after(600))
    assert target_start(job, HASTY) == after(600) + FIVE_MINUTES


def test_only_a_queued_job_with_a_target_has_a_target_start() -> None:
    assert target_start(a_job(), HASTY) is None
    assert target_start(a_job(priority=Priority.CRITICAL, stage=Stage.BLOCKED), HASTY) is None
    assert target_start(a_running_job(priority=Priority.CRITICAL), HASTY) is None


def test_late_job_is_explained_as_late() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_product(HASTY)
    job = a_job(priority=Priority.CRITICAL)
    early = explain(job, a_queue(job), fleet, NOON)
    assert (early.due_at, "late" in {r.code for r in early.reasons}) == (
        target_start(job, HASTY),
        False,
    )
    late = explain(job, a_queue(job), fleet, after(7 * 60))
    (reason,) = [r for r in late.reasons if r.code == "late"]
    assert reason.message == "it waits 2 min longer than notes wants it to"
