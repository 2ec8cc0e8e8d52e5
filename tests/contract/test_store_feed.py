"""The contract of the change feed: no gaps, commit order, the same for every follower."""

import asyncio

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.job.job import Event, Stage
from gigafactory.store.recent_feed import RECENT_MAX
from tests.support.builders import NOON, a_job, a_product, a_step, a_submission, after, an_event

COMMITTERS = 24
STEPS = 12


async def read_events(store: Store, follower_from: int = 0) -> list[Event]:
    """Return all events after a position, read page by page."""
    events: list[Event] = []
    position = follower_from
    while page := await store.feed(after=position, limit=7):
        events += [entry.event for entry in page]
        position = events[-1].position
    return events


async def climb(store: Store, job_id: str, steps: int = STEPS) -> list[int]:
    """Create a job and change it step by step; return the acknowledged positions."""
    change = a_submission(a_job(id=job_id))
    positions = []
    for _ in range(steps):
        verdict = await store.commit(change)
        assert isinstance(verdict, Stored)
        positions.append(verdict.position)
        change = a_step(change.after)
    return positions


async def follow(store: Store, total: int) -> list[Event]:
    """Follow the feed until it has returned `total` events; return them."""
    heard: list[Event] = []
    while len(heard) < total:
        position = heard[-1].position if heard else 0
        await store.wait_for_change(position)
        heard += [entry.event for entry in await store.feed(after=position, limit=10)]
    return heard


async def test_the_feed_of_an_empty_store_is_empty(store: Store) -> None:
    assert await store.position() == 0
    assert list(await store.feed(after=0)) == []
    assert await store.events("job-1") == []
    assert await store.audit(None) == []


async def test_an_event_is_read_back_whole(store: Store) -> None:
    job = a_job()
    data = {"epoch": 3, "runId": "job-1.3", "score": 0.5, "nested": [{"é": None}], "ok": True}
    event = an_event(job, "assigned", data=data, actor="factory:mac-1", at=after(0.123))
    await store.commit(a_submission(job, events=(event,)))
    [kept] = await store.events("job-1")
    [entry] = await store.feed(after=0)
    assert (
        kept
        == entry.event
        == an_event(job, "assigned", data=data, actor="factory:mac-1", at=after(0.123), position=1)
    )
    assert entry.job == job


async def test_events_get_consecutive_positions_in_the_given_order(store: Store) -> None:
    a, b = a_job(id="a", seq=2), a_job(id="b")
    first = a_submission(a, events=(an_event(a, "one", seq=1), an_event(a, "two", seq=2)))
    audit = RecordChange(before=None, after=a_product(), events=(an_event(None, "three"),))
    assert await store.commit(first, audit, a_submission(b)) == Stored(4)
    assert [(e.position, e.type) for e in await read_events(store)] == [
        (1, "one"),
        (2, "two"),
        (3, "three"),
        (4, "submitted"),
    ]


async def test_job_events_are_read_in_order_after_a_sequence_number(store: Store) -> None:
    await asyncio.gather(climb(store, "a"), climb(store, "b"))
    assert [e.seq for e in await store.events("a")] == list(range(1, STEPS + 1))
    assert [e.seq for e in await store.events("a", after=4, limit=3)] == [5, 6, 7]
    assert {e.job_id for e in await store.events("b")} == {"b"}


async def test_audit_log_is_read_newest_first_within_a_scope(store: Store) -> None:
    await store.commit(a_submission(a_job()))
    for n, product in enumerate(("notes", "*", "shop", "notes"), start=1):
        event = an_event(None, f"audit-{n}", product_id=product)
        await store.commit(RecordChange(before=None, after=a_product(id=f"p{n}"), events=(event,)))
    assert [e.type for e in await store.audit(None)] == ["audit-4", "audit-3", "audit-2", "audit-1"]
    notes = await store.audit(("notes",))
    assert [e.type for e in notes] == ["audit-4", "audit-1"]
    with_fleet = await store.audit(("notes", "*"))
    assert [e.type for e in with_fleet] == ["audit-4", "audit-2", "audit-1"]
    assert [e.type for e in await store.audit(())] == []
    older = await store.audit(("notes", "*"), before=notes[0].position, limit=1)
    assert [e.type for e in older] == ["audit-2"]


async def test_concurrent_commits_leave_no_gap_in_positions(store: Store) -> None:
    acknowledged = await asyncio.gather(*(climb(store, f"job-{n}") for n in range(COMMITTERS)))
    positions = sorted(position for own in acknowledged for position in own)
    assert positions == list(range(1, COMMITTERS * STEPS + 1))
    assert all(own == sorted(own) for own in acknowledged)
    assert [e.position for e in await read_events(store)] == positions
    assert await store.position() == positions[-1]


async def test_concurrent_followers_neither_miss_nor_repeat_events(
    store: Store,
) -> None:
    total = COMMITTERS * STEPS
    followers = [asyncio.create_task(follow(store, total)) for _ in range(3)]
    await asyncio.gather(*(climb(store, f"job-{n}") for n in range(COMMITTERS)))
    for heard in await asyncio.gather(*followers):
        assert [e.position for e in heard] == list(range(1, total + 1))
        for n in range(COMMITTERS):
            own = [e.seq for e in heard if e.job_id == f"job-{n}"]
            assert own == list(range(1, STEPS + 1))


async def test_rejected_change_takes_no_position(store: Store) -> None:
    job = a_job()
    await store.commit(a_submission(job))
    steps = [store.commit(a_step(job, stage=Stage.ASSIGNED, title=str(n))) for n in range(10)]
    await asyncio.gather(*steps, store.commit(a_submission(a_job(id="job-2"))))
    assert [e.position for e in await read_events(store)] == [1, 2, 3]


async def test_feed_entry_has_a_job_at_least_as_new_as_its_event(store: Store) -> None:
    await asyncio.gather(climb(store, "a"), climb(store, "b"))
    for entry in await store.feed(after=0):
        assert entry.job is not None
        assert (entry.job.id, entry.job.seq >= entry.event.seq) == (entry.event.job_id, True)


async def test_events_older_than_the_recent_window_are_in_the_feed(store: Store) -> None:
    for start in range(0, RECENT_MAX + 500, 1000):
        jobs = [a_job(id=f"job-{n:06}") for n in range(start, start + 1000)]
        await store.commit(*map(a_submission, jobs))
    first, *_, last = await store.feed(after=0, limit=20)
    assert (first.event.position, last.event.position) == (1, 20)
    assert first.job == a_job(id="job-000000")
    edge = await store.feed(after=990, limit=20)
    assert [e.event.position for e in edge] == list(range(991, 1011))


async def test_commit_wakes_a_waiting_follower(store: Store) -> None:
    waiting = asyncio.create_task(store.wait_for_change(0))
    await asyncio.sleep(0)
    assert not waiting.done()
    await store.commit(a_submission(a_job()))
    async with asyncio.timeout(4):
        await waiting
    assert [e.event.at for e in await store.feed(after=0)] == [NOON]


async def test_follower_that_is_behind_does_not_wait(store: Store) -> None:
    await store.commit(a_submission(a_job()))
    async with asyncio.timeout(4):
        await store.wait_for_change(0)
    assert len(await store.feed(after=0)) == 1
