"""The contract of leases: stored apart from the job, extended by renewals only."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.change import (
    FactoriesSeen,
    LeaseExpiredGuard,
    LeaseExtension,
    Renewal,
    StaleRevision,
    Stored,
)
from gigafactory.domain.job.job import Job, Stage
from tests.support.builders import NOON, TTL, a_job, a_lease, a_step, a_submission, after

SECOND = timedelta(seconds=1)


async def leased(store: Store, **fields: object) -> Job:
    """Store a job with a lease of epoch 1 until 90 s after noon, and return it."""
    job = a_job(lease=a_lease(), lease_epoch=1, stage=Stage.BUILDING, **fields)
    assert isinstance(await store.commit(a_submission(job)), Stored)
    return job


async def read(store: Store, job_id: str = "job-1") -> Job:
    job = await store.job(job_id)
    assert job is not None
    return job


async def test_renewal_extends_a_lease_and_changes_nothing_else(store: Store) -> None:
    job = await leased(store)
    assert await store.commit(Renewal("job-1", 1, after(200))) == Stored(0)
    assert await read(store) == replace(job, lease=a_lease(expires_at=after(200)))
    assert isinstance(await store.commit(a_step(job)), Stored)


async def test_renewal_never_shortens_a_lease(store: Store) -> None:
    job = await leased(store)
    assert await store.commit(Renewal("job-1", 1, after(10))) == Stored(0)
    assert await read(store) == job


async def test_an_expired_lease_can_be_renewed_until_it_is_ended(store: Store) -> None:
    await leased(store)
    assert [j.id for j in await store.jobs_with_expired_leases(after(90))] == ["job-1"]
    assert await store.commit(Renewal("job-1", 1, after(500))) == Stored(0)
    assert await store.jobs_with_expired_leases(after(499)) == []


async def test_ended_or_unknown_lease_is_not_renewed(store: Store) -> None:
    job = await leased(store)
    assert await store.commit(Renewal("nobody", 1, after(200))) == StaleRevision("nobody")
    assert await store.commit(Renewal("job-1", 2, after(200))) == StaleRevision("job-1")
    ending = a_step(job, lease=None, ending=(a_lease(),), lease_epoch=2)
    await store.commit(ending)
    assert await store.commit(Renewal("job-1", 1, after(200))) == StaleRevision("job-1")
    ended = a_step(ending.after, ending=())
    await store.commit(ended)
    assert await store.commit(Renewal("job-1", 1, after(200))) == StaleRevision("job-1")
    assert await read(store) == ended.after


async def test_failed_renewal_fails_its_group(store: Store) -> None:
    job = await leased(store)
    assert await store.commit(a_step(job), Renewal("job-1", 7, after(200))) == StaleRevision(
        "job-1"
    )
    assert await read(store) == job


async def test_job_change_keeps_the_renewed_expiry(store: Store) -> None:
    job = await leased(store)
    await store.commit(Renewal("job-1", 1, after(300)))
    await store.commit(a_step(job, title="Other"))
    lease = (await read(store)).lease
    assert lease is not None
    assert lease.expires_at == after(300)


async def test_ending_lease_lasts_until_its_renewed_expiry(store: Store) -> None:
    job = await leased(store)
    await store.commit(Renewal("job-1", 1, after(300)))
    await store.commit(a_step(job, lease=None, ending=(a_lease(),), lease_epoch=2))
    [ending] = (await read(store)).ending
    assert ending.expires_at == after(300)
    assert await store.jobs_with_expired_leases(after(299)) == []
    assert [j.id for j in await store.jobs_with_expired_leases(after(300))] == ["job-1"]


async def test_job_change_can_shorten_a_lease_explicitly(store: Store) -> None:
    job = await leased(store)
    await store.commit(Renewal("job-1", 1, after(300)))
    shortened = a_step(job, lease=a_lease(expires_at=after(60)))
    await store.commit(shortened)
    assert await read(store) == shortened.after
    assert await store.jobs_with_expired_leases(after(59)) == []


async def test_lease_of_a_new_epoch_starts_with_its_own_expiry(store: Store) -> None:
    job = await leased(store)
    await store.commit(Renewal("job-1", 1, after(300)))
    ended = a_step(job, lease=None)
    await store.commit(ended)
    granted = a_step(ended.after, lease=a_lease(epoch=2), lease_epoch=2)
    await store.commit(granted)
    assert await read(store) == granted.after


async def test_reaper_does_not_end_a_lease_renewed_meanwhile(store: Store) -> None:
    job = await leased(store)
    reaped = a_step(
        job, lease=None, lease_epoch=2, guards=(LeaseExpiredGuard("job-1", 1, after(90)),)
    )
    await store.commit(Renewal("job-1", 1, after(91)))
    assert await store.commit(reaped) == StaleRevision("job-1")
    late = replace(reaped, guards=(LeaseExpiredGuard("job-1", 1, after(91)),))
    assert isinstance(await store.commit(late), Stored)
    assert await store.commit(Renewal("job-1", 1, after(500))) == StaleRevision("job-1")


async def test_expiry_guard_fails_for_an_unknown_lease(store: Store) -> None:
    job = await leased(store)
    unknown = a_step(job, guards=(LeaseExpiredGuard("job-1", 2, after(1000)),))
    assert await store.commit(unknown) == StaleRevision("job-1")
    elsewhere = a_step(job, guards=(LeaseExpiredGuard("job-9", 1, after(1000)),))
    assert await store.commit(elsewhere) == StaleRevision("job-9")


async def test_concurrent_renewal_and_reap_never_both_win(store: Store) -> None:
    jobs = [a_job(id=f"job-{n}", lease=a_lease(), lease_epoch=1) for n in range(20)]
    await store.commit(*map(a_submission, jobs))
    reaping = [
        store.commit(a_step(job, lease=None, guards=(LeaseExpiredGuard(job.id, 1, after(90)),)))
        for job in jobs
    ]
    renewing = [store.commit(Renewal(job.id, 1, after(200))) for job in jobs]
    mixed = [one for pair in zip(reaping, renewing, strict=True) for one in pair]
    verdicts = await asyncio.gather(*mixed)
    for reaped, renewed in zip(verdicts[::2], verdicts[1::2], strict=True):
        assert isinstance(reaped, Stored) != isinstance(renewed, Stored)


async def test_longest_expired_lease_comes_first(store: Store) -> None:
    for n, until in enumerate((30, 10, 20, 40)):
        lease = a_lease(expires_at=after(until))
        await store.commit(a_submission(a_job(id=f"job-{n}", lease=lease)))
    both = (a_lease(epoch=1, expires_at=after(35)), a_lease(epoch=2, expires_at=after(5)))
    await store.commit(a_submission(a_job(id="job-9", ending=both)))
    assert [j.id for j in await store.jobs_with_expired_leases(after(35))] == [
        "job-9",
        "job-1",
        "job-2",
        "job-0",
    ]
    assert [j.id for j in await store.jobs_with_expired_leases(after(35), limit=2)] == [
        "job-9",
        "job-1",
    ]
    assert await store.jobs_with_expired_leases(after(4)) == []


async def test_lease_extension_extends_every_lease(store: Store) -> None:
    live = await leased(store)
    ending = a_job(id="job-2", ending=(a_lease(epoch=3, expires_at=after(10)),))
    await store.commit(a_submission(ending))
    assert await store.commit(LeaseExtension(timedelta(minutes=2))) == Stored(0)
    assert await read(store) == replace(live, lease=a_lease(expires_at=NOON + TTL + 120 * SECOND))
    [lease] = (await read(store, "job-2")).ending
    assert lease.expires_at == after(130)


async def test_lease_granted_after_an_extension_is_not_extended(store: Store) -> None:
    job = await leased(store)
    await store.commit(Renewal("job-1", 1, after(100)))
    await store.commit(LeaseExtension(10 * SECOND))
    granted = a_submission(a_job(id="job-2", lease=a_lease()))
    await store.commit(granted)
    assert await read(store) == replace(job, lease=a_lease(expires_at=after(110)))
    assert await read(store, "job-2") == granted.after


async def test_last_seen_time_never_goes_back(store: Store) -> None:
    assert await store.last_seen() == {}
    assert await store.commit(FactoriesSeen({"mac-1": after(10), "mac-2": after(20)})) == Stored(0)
    await store.commit(FactoriesSeen({"mac-1": after(30), "mac-2": after(15), "linux-1": after(1)}))
    expected = {"mac-1": after(30), "mac-2": after(20), "linux-1": after(1)}
    assert await store.last_seen() == expected
