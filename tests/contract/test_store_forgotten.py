"""The contract of job deletion: atomic, and never of a dependency of an unfinished job."""

import asyncio

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.domain.job.change import (
    JobDeletion,
    RecordChange,
    RevisionGuard,
    StaleRevision,
    Stored,
)
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import a_job, a_product, a_step, a_submission, an_event

UNFINISHED = sorted(set(Stage) - FINAL)


async def ended(store: Store, job_id: str = "job-1", **more: object) -> Job:
    """Store a shipped job with its own key and return it."""
    job = a_job(id=job_id, name=job_id, **more)
    await store.commit(a_submission(job, take=(f"key/{job_id}",)))
    done = a_step(job, stage=Stage.SHIPPED)
    assert isinstance(await store.commit(done), Stored)
    return done.after


async def test_deleted_job_leaves_nothing(store: Store) -> None:
    await store.commit(a_submission(a_job(id="dep")))
    job = await ended(store, deps=("dep",), title="Unusual words")
    other = await ended(store, "other")
    verdict = await store.commit(
        JobDeletion(job=job, free=("key/job-1", "key/other")),
        RecordChange(before=None, after=a_product(), events=(an_event(),)),
    )
    assert isinstance(verdict, Stored)
    assert await store.job(job.id) is None
    assert await store.jobs([job.id, other.id]) == {other.id: other}
    assert await store.specs([job.id]) == {}
    assert await store.events(job.id) == []
    assert await store.find_jobs(JobQuery(text="unusual")) == []
    assert await store.find_jobs(JobQuery(stages=(Stage.SHIPPED,))) == [other]
    assert await store.keys_with_prefix("key/") == {"key/other": "other"}
    counted = await store.count_jobs_by_stage(None)
    assert (counted[Stage.SHIPPED], counted[Stage.QUEUED]) == (1, 1)
    assert await store.record(Product, "notes") == a_product()


async def test_feed_continues_after_a_deletion(store: Store) -> None:
    job = await ended(store)
    await ended(store, "other")
    event = RecordChange(before=None, after=a_product(), events=(an_event(),))
    verdict = await store.commit(JobDeletion(job=job), event)
    assert isinstance(verdict, Stored)
    assert verdict.position == await store.position() == 5
    items = [entry.event for entry in await store.feed(after=2)]
    assert [(event.position, event.job_id) for event in items] == [
        (3, "other"),
        (4, "other"),
        (5, None),
    ]


async def test_feed_contains_no_events_of_a_deleted_job(store: Store) -> None:
    job = await ended(store)
    other = a_submission(a_job(id="other", name="other"))
    # Commit concurrently, since a store may still cache events of the deleted job.
    await asyncio.gather(store.commit(other), store.commit(JobDeletion(job=job)))
    assert [entry.event.job_id for entry in await store.feed(after=0)] == ["other"]
    assert await store.position() == 3
    await store.commit(a_step(other.after))
    assert [entry.event.position for entry in await store.feed(after=0)] == [3, 4]


async def test_name_and_id_of_a_deleted_job_can_be_reused(store: Store) -> None:
    job = await ended(store)
    await store.commit(JobDeletion(job=job, free=("key/job-1",)))
    again = a_job(id="job-1", name="job-1", title="Unusual")
    assert isinstance(await store.commit(a_submission(again, take=("key/job-1",))), Stored)
    assert await store.job("job-1") == again
    assert await store.find_jobs(JobQuery(text="unus")) == [again]
    assert [event.seq for event in await store.events("job-1")] == [1]


async def test_changed_job_is_not_deleted(store: Store) -> None:
    job = await ended(store)
    assert isinstance(await store.commit(a_step(job, stage=Stage.QUEUED)), Stored)
    saved = RecordChange(before=None, after=a_product())
    assert await store.commit(saved, JobDeletion(job=job)) == StaleRevision("job-1")
    assert await store.record(Product, "notes") is None
    assert len(await store.events("job-1")) == 3
    assert await store.commit(JobDeletion(job=a_job(id="nobody"))) == StaleRevision("nobody")


async def test_deletion_fails_with_its_group(store: Store) -> None:
    job = await ended(store)
    stale = RecordChange(before=a_product(), after=None)
    assert await store.commit(JobDeletion(job=job), stale) == StaleRevision("product/notes")
    guarded = RecordChange(
        before=None, after=a_product(), guards=(RevisionGuard("product", "shop", 3),)
    )
    assert await store.commit(JobDeletion(job=job), guarded) == StaleRevision("product/shop")
    assert await store.job(job.id) == job
    assert len(await store.events(job.id)) == 2
    assert await store.commit(JobDeletion(job=job), JobDeletion(job=job)) == StaleRevision("job-1")
    assert await store.job(job.id) == job


@pytest.mark.parametrize("stage", UNFINISHED)
async def test_dependency_of_an_unfinished_job_is_not_deleted(store: Store, stage: Stage) -> None:
    job = await ended(store)
    waiting = a_job(id="waiting", deps=("job-1",), stage=stage)
    await store.commit(a_submission(waiting))
    assert await store.commit(JobDeletion(job=job)) == StaleRevision("job-1")
    assert await store.job(job.id) == job
    done = a_step(waiting, stage=Stage.CANCELLED)
    await store.commit(done)
    assert isinstance(await store.commit(JobDeletion(job=job)), Stored)


async def test_deletion_and_new_dependent_never_both_win(store: Store) -> None:
    for number in range(20):
        job = await ended(store, f"old-{number}")
        guard = RevisionGuard("job", job.id, job.rev)
        waiting = a_job(id=f"new-{number}", name=f"new-{number}", deps=(job.id,))
        coming = replace(a_submission(waiting), guards=(guard,))
        both = (store.commit(JobDeletion(job=job)), store.commit(coming))
        verdicts = await asyncio.gather(*(both if number % 2 else reversed(both)))
        assert sorted(type(each).__name__ for each in verdicts) == ["StaleRevision", "Stored"]
        kept = await store.jobs([job.id, waiting.id])
        assert set(kept) in ({job.id, waiting.id}, set())
