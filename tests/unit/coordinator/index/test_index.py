"""The index: which jobs a composite holds back, and for how long."""

from msgspec.structs import replace

from gigafactory.coordinator.index.index import Index
from gigafactory.domain.job.job import OVER_BUDGET, Stage
from gigafactory.store.memory import MemoryStore
from tests.support.builders import NOON, a_job


class Noon:
    def now(self) -> object:
        return NOON


def an_index() -> Index:
    return Index(MemoryStore(), Noon(), fleet_seats={})  # type: ignore[arg-type]


PLAN = a_job(id="plan", name="plan", kind="composite", stage=Stage.BUILDING)
CHILD = a_job(id="child", name="child", parent_id="plan")
ENDED = replace(PLAN, stage=Stage.CANCELLED)
SPENT = replace(PLAN, flags=(OVER_BUDGET,))


def test_child_returns_with_its_composite_in_any_event_order() -> None:
    for shut in (ENDED, SPENT):
        for again in ((PLAN, CHILD), (CHILD, PLAN), (PLAN,)):
            index = an_index()
            index.apply_job(CHILD)
            index.apply_job(shut)
            index.apply_job(CHILD)
            assert index.queue.find("child") is None
            for job in again:
                index.apply_job(job)
            assert index.queue.find("child") is not None, (shut.stage, again)


def test_cancelled_or_removed_child_does_not_return_with_its_composite() -> None:
    index = an_index()
    index.apply_job(ENDED)
    for gone in ("child", "other"):
        index.apply_job(replace(CHILD, id=gone))
    index.apply_job(replace(CHILD, stage=Stage.CANCELLED))
    index.remove_job("other")
    index.apply_job(PLAN)
    assert index.queue.find("child") is None
    assert index.queue.find("other") is None
