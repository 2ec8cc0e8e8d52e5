"""The contract of a commit: compare-and-set, atomicity, guards and unique keys."""

import asyncio

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.change import (
    JobChange,
    KeyTaken,
    RecordChange,
    RevisionGuard,
    StaleRevision,
    Stored,
)
from gigafactory.domain.job.job import Ask, Job, Stage, Terms
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import (
    NOON,
    TTL,
    a_job,
    a_lease,
    a_product,
    a_step,
    a_submission,
    an_event,
)


async def submitted(store: Store, *jobs: Job) -> list[Job]:
    """Store new jobs and return them."""
    verdict = await store.commit(*map(a_submission, jobs))
    assert isinstance(verdict, Stored)
    return list(jobs)


async def test_job_with_all_fields_is_read_back_whole(store: Store) -> None:
    job = a_job(
        ask=Ask(needs=("os:mac",), repo="notes", engine="claude", prefers_engine=("codex",)),
        terms=Terms(retry_max=2, quorum=2, ship="pr"),
        deps=("job-0",),
        lock="schema",
        profile="coder@3",
        phase=2,
        lease=a_lease(),
        ending=(a_lease(epoch=0, factory_id="linux-1"),),
        lease_epoch=1,
        not_before=NOON,
        flags=("x",),
    )
    await submitted(store, job)
    assert await store.job("job-1") == job


async def test_job_with_default_fields_is_read_back_whole(store: Store) -> None:
    await submitted(store, a_job())
    assert await store.job("job-1") == a_job()


async def test_unknown_job_id_returns_nothing(store: Store) -> None:
    assert await store.job("nobody") is None
    assert await store.specs(["nobody"]) == {}


async def test_job_body_is_stored_once_and_unchanged(store: Store) -> None:
    body = "Größer als 'zwei'\n\n\tZeilen \N{SNOWMAN} \\ \"quoted\"\r\n"
    await store.commit(a_submission(a_job(), body=body))
    await store.commit(a_step(a_job(), stage=Stage.SHIPPED))
    spec = (await store.specs(["nobody", "job-1"]))["job-1"]
    assert (spec.body, bytes(spec.manifest)) == (body, b'{"name":"fix-login"}')


async def test_records_by_key_reads_many_records(store: Store) -> None:
    notes, shop = a_product(), a_product(id="shop")
    await store.commit(
        RecordChange(before=None, after=notes), RecordChange(before=None, after=shop)
    )
    wanted = ["shop", "nobody", "no\0body", "notes"]
    assert await store.records_by_key(Product, wanted) == {"notes": notes, "shop": shop}
    assert await store.records_by_key(Product, []) == {}


async def test_jobs_reads_many_jobs(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    assert await store.jobs(["b", "nobody", "a"]) == {"a": a, "b": b}
    assert await store.jobs([]) == {}


async def test_one_of_two_changes_from_one_revision_wins(store: Store) -> None:
    [job] = await submitted(store, a_job())
    changes = [a_step(job, title=f"by {name}") for name in ("ann", "bob")]
    verdicts = await asyncio.gather(*(store.commit(change) for change in changes))
    assert sorted(type(v).__name__ for v in verdicts) == ["StaleRevision", "Stored"]
    assert StaleRevision("job-1") in verdicts
    kept = await store.job("job-1")
    assert kept == changes[0 if isinstance(verdicts[0], Stored) else 1].after


async def test_exactly_one_of_many_concurrent_claims_wins(store: Store) -> None:
    [job] = await submitted(store, a_job())
    claims = [a_step(job, stage=Stage.ASSIGNED, title=str(n)) for n in range(40)]
    verdicts = await asyncio.gather(*(store.commit(claim) for claim in claims))
    assert len([v for v in verdicts if isinstance(v, Stored)]) == 1
    assert [e.seq for e in await store.events("job-1")] == [1, 2]


async def test_event_without_a_new_revision_still_makes_older_changes_stale(store: Store) -> None:
    [job] = await submitted(store, a_job())
    fenced = replace(a_step(job), after=replace(job, seq=2, fenced=("mac-2@1",)))
    assert isinstance(await store.commit(fenced), Stored)
    assert await store.commit(a_step(job)) == StaleRevision("job-1")
    assert isinstance(await store.commit(a_step(fenced.after)), Stored)


async def test_job_is_created_only_once(store: Store) -> None:
    [job] = await submitted(store, a_job())
    assert await store.commit(a_submission(replace(job, title="again"))) == StaleRevision("job-1")
    assert await store.job("job-1") == job


async def test_change_of_a_missing_job_is_stale(store: Store) -> None:
    assert await store.commit(a_step(a_job())) == StaleRevision("job-1")
    assert await store.job("job-1") is None


async def test_group_is_stored_whole_or_not_at_all(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    await store.commit(a_step(b))
    position = await store.position()
    verdict = await store.commit(
        a_submission(a_job(id="c"), take=("name/c",)),
        a_step(a, title="new", take=("lock/a",), lease=a_lease()),
        RecordChange(before=None, after=a_product(), events=(an_event(),)),
        a_step(b, title="stale"),
    )
    assert verdict == StaleRevision("b")
    assert await store.jobs(["a", "c"]) == {"a": a}
    assert await store.specs(["c"]) == {}
    assert await store.key_owners(["name/c", "lock/a"]) == {}
    assert await store.record(type(a_product()), "notes") is None
    assert await store.position() == position
    assert await store.jobs_with_expired_leases(NOON + 2 * TTL) == []


async def test_group_with_two_changes_of_one_job_is_stale(store: Store) -> None:
    [job] = await submitted(store, a_job())
    first = a_step(job)
    assert await store.commit(first, a_step(first.after)) == StaleRevision("job-1")
    assert await store.commit(first, a_step(job)) == StaleRevision("job-1")
    assert await store.job("job-1") == job


async def test_an_empty_group_is_stored(store: Store) -> None:
    assert await store.commit() == Stored(0)


async def test_stored_verdict_has_the_position_of_the_last_event(store: Store) -> None:
    [job] = await submitted(store, a_job())
    assert await store.commit(a_step(job), a_submission(a_job(id="job-2"))) == Stored(3)
    silent = JobChange(before=a_job(id="job-2"), after=a_job(id="job-2", rev=2))
    assert await store.commit(silent) == Stored(0)
    assert await store.position() == 3


@pytest.mark.parametrize("kind", ["job", "product"])
async def test_revision_guard_holds_while_the_revision_is_unchanged(
    store: Store, kind: str
) -> None:
    [job, other] = await submitted(store, a_job(), a_job(id="notes", name="other"))
    await store.commit(RecordChange(before=None, after=a_product()))
    guarded = a_step(job, guards=(RevisionGuard(kind, "notes", 1),))
    assert isinstance(await store.commit(guarded), Stored)
    if kind == "job":
        await store.commit(a_step(other))
    else:
        await store.commit(RecordChange(before=a_product(), after=a_product(rev=2)))
    late = a_step(guarded.after, guards=(RevisionGuard(kind, "notes", 1),))
    assert await store.commit(late) == StaleRevision(f"{kind}/notes")
    assert await store.job("job-1") == guarded.after


@pytest.mark.parametrize("kind", ["job", "product"])
async def test_absence_guard_holds_until_the_record_exists(store: Store, kind: str) -> None:
    absent = (RevisionGuard(kind, "notes", 0),)
    assert isinstance(await store.commit(a_submission(a_job(), guards=absent)), Stored)
    if kind == "job":
        await store.commit(a_submission(a_job(id="notes")))
    else:
        await store.commit(RecordChange(before=None, after=a_product()))
    assert await store.commit(a_step(a_job(), guards=absent)) == StaleRevision(f"{kind}/notes")
    gone = RecordChange(
        before=None, after=a_product(id="shop"), guards=(RevisionGuard(kind, "notes", 0),)
    )
    assert await store.commit(gone) == StaleRevision(f"{kind}/notes")


async def test_guard_compares_with_the_state_before_its_group(store: Store) -> None:
    [job] = await submitted(store, a_job())
    switch = RecordChange(before=None, after=a_product())
    guarded = a_step(job, guards=(RevisionGuard("product", "notes", 0),))
    assert isinstance(await store.commit(switch, guarded), Stored)


async def test_no_guarded_change_follows_a_stored_switch(store: Store) -> None:
    jobs = await submitted(store, *(a_job(id=f"job-{n}") for n in range(30)))
    guard = (RevisionGuard("product", "notes", 0),)
    changes = [store.commit(a_step(job, guards=guard)) for job in jobs]
    switch = store.commit(RecordChange(before=None, after=a_product(), events=(an_event(),)))
    *verdicts, halted = await asyncio.gather(*changes[:15], *changes[15:], switch)
    assert isinstance(halted, Stored)
    passed = [v.position for v in verdicts if isinstance(v, Stored)]
    assert all(position < halted.position for position in passed)
    assert await store.commit(a_submission(a_job(id="late"), guards=guard)) == StaleRevision(
        "product/notes"
    )


async def test_key_belongs_to_one_job(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    assert isinstance(await store.commit(a_step(a, take=("lock/x", "seat/1"))), Stored)
    assert await store.commit(a_step(b, take=("seat/2", "lock/x"))) == KeyTaken("lock/x", "a")
    assert await store.key_owners(["lock/x", "seat/1", "seat/2"]) == {"lock/x": "a", "seat/1": "a"}


async def test_exactly_one_of_many_concurrent_takers_gets_a_key(store: Store) -> None:
    jobs = await submitted(store, *(a_job(id=f"job-{n}") for n in range(20)))
    verdicts = await asyncio.gather(*(store.commit(a_step(j, take=("seat/1",))) for j in jobs))
    [winner] = [j.id for j, v in zip(jobs, verdicts, strict=True) if isinstance(v, Stored)]
    assert await store.key_owners(["seat/1"]) == {"seat/1": winner}
    assert [v for v in verdicts if v == KeyTaken("seat/1", winner)] == [
        KeyTaken("seat/1", winner)
    ] * 19


async def test_freed_key_can_be_taken(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    taken = a_step(a, take=("lock/x",))
    await store.commit(taken)
    await store.commit(a_step(taken.after, free=("lock/x",)))
    assert await store.key_owners(["lock/x"]) == {}
    assert isinstance(await store.commit(a_step(b, take=("lock/x",))), Stored)


@pytest.mark.parametrize("taker_first", [False, True])
async def test_key_moves_between_jobs_in_one_group(store: Store, *, taker_first: bool) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    taken = a_step(a, take=("lock/x",))
    await store.commit(taken)
    freeing, taking = a_step(taken.after, free=("lock/x",)), a_step(b, take=("lock/x",))
    group = (taking, freeing) if taker_first else (freeing, taking)
    assert isinstance(await store.commit(*group), Stored)
    assert await store.key_owners(["lock/x"]) == {"lock/x": "b"}


async def test_job_can_free_and_retake_a_key_in_one_change(store: Store) -> None:
    [a] = await submitted(store, a_job(id="a"))
    taken = a_step(a, take=("seat/1",))
    await store.commit(taken)
    again = a_step(taken.after, free=("seat/1",), take=("seat/1", "seat/2"))
    assert isinstance(await store.commit(again), Stored)
    assert await store.keys_with_prefix("seat/") == {"seat/1": "a", "seat/2": "a"}


async def test_key_of_another_job_is_not_freed(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    await store.commit(a_step(a, take=("lock/x",)))
    stranger = a_step(b, free=("lock/x", "lock/unowned"))
    assert isinstance(await store.commit(stranger), Stored)
    assert await store.key_owners(["lock/x"]) == {"lock/x": "a"}
    thief = a_step(stranger.after, free=("lock/x",), take=("lock/x",))
    assert await store.commit(thief) == KeyTaken("lock/x", "a")


async def test_two_jobs_of_one_group_cannot_take_one_key(store: Store) -> None:
    a, b = await submitted(store, a_job(id="a"), a_job(id="b"))
    verdict = await store.commit(a_step(a, take=("lock/x",)), a_step(b, take=("lock/x",)))
    assert verdict == KeyTaken("lock/x", "a")
    assert await store.keys_with_prefix("") == {}


async def test_keys_are_found_by_prefix(store: Store) -> None:
    keys = ("slot/mac-1/0", "slot/mac-1/1", "slot/mac-10/0", "slot/mac-1", "slos", "SLOT/mac-1/2")
    await store.commit(a_submission(a_job(), take=(*keys, "slot/mac-1/%", "slot/mac-1/\u00fc")))
    assert set(await store.keys_with_prefix("slot/mac-1/")) == {
        "slot/mac-1/0",
        "slot/mac-1/1",
        "slot/mac-1/%",
        "slot/mac-1/\u00fc",
    }
    assert set(await store.keys_with_prefix("slot/mac-1/%")) == {"slot/mac-1/%"}
    assert len(await store.keys_with_prefix("")) == 8
