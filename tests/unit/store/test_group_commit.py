"""Group commit: which writes share a batch, in which order, and which callers get an error."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import (
    CommitResult,
    FactoriesSeen,
    FeedEntry,
    LeaseExpiredGuard,
    LeaseExtension,
    RecordChange,
    Renewal,
    RevisionGuard,
    StaleRevision,
    Stored,
)
from gigafactory.store.group_commit import (
    FEW_WRITES,
    BatchResult,
    Footprint,
    Group,
    GroupCommit,
    footprint,
)
from tests.support.builders import NOON, a_job, a_product, a_step

OUTAGE = LeaseExtension(timedelta(seconds=1))


class Tape:
    """A store that records its batches and writes each only while the gate is open."""

    def __init__(self, fault: Callable[[list[Group]], Exception | None] = lambda _: None) -> None:
        self.batches: list[list[str]] = []
        self.busy = asyncio.Event()
        self.gate = asyncio.Event()
        self._fault = fault

    async def apply(self, batch: list[Group]) -> BatchResult:
        assert not self.busy.is_set(), "two batches at once"
        self.busy.set()
        await self.gate.wait()
        self.busy.clear()
        self.batches.append([name(group) for group in batch])
        if fault := self._fault(batch):
            raise fault
        return BatchResult([StaleRevision(name(group)) for group in batch])


def ignore_entries(entries: Sequence[FeedEntry], *, job_deleted: bool) -> None:
    """Ignore the entries of the feed."""


def name(group: Group) -> str:
    return ",".join(w.job_id if isinstance(w, Renewal) else "outage" for w in group)


def renewal(job_id: str) -> Group:
    return (Renewal(job_id, 1, NOON),)


def commits(group: GroupCommit, *names: str) -> list[asyncio.Task[CommitResult]]:
    return [asyncio.create_task(group.commit(renewal(name_))) for name_ in names]


async def start_commit(tape: Tape, group: GroupCommit) -> asyncio.Task[CommitResult]:
    """Start a first commit and wait until its batch is being written."""
    [first] = commits(group, "first")
    await tape.busy.wait()
    return first


async def test_small_batch_waits_for_writes_on_their_way() -> None:
    tape = Tape()
    tape.gate.set()
    group = GroupCommit(tape.apply, ignore_entries)

    async def on_the_way(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await group.commit(renewal(f"after {turns}"))

    await asyncio.gather(*(on_the_way(turns) for turns in range(5)))
    assert tape.batches == [[f"after {turns}" for turns in range(5)]]


async def test_large_batch_does_not_wait_for_more() -> None:
    tape = Tape()
    tape.gate.set()
    group = GroupCommit(tape.apply, ignore_entries)

    async def late() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await group.commit(renewal("late"))

    many = group.commit(tuple(Renewal(f"j{n}", 1, NOON) for n in range(FEW_WRITES)))
    await asyncio.gather(many, late())
    assert len(tape.batches) == 2


async def test_writes_that_arrive_during_a_batch_share_the_next_one() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    rest = commits(group, "a", "b", "c")
    await asyncio.sleep(0)
    tape.gate.set()
    assert await asyncio.gather(first, *rest) == [
        StaleRevision(n) for n in ("first", "a", "b", "c")
    ]
    assert tape.batches == [["first"], ["a", "b", "c"]]


async def test_batch_size_is_bounded() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries, writes_max=2)
    first = await start_commit(tape, group)
    rest = commits(group, "a", "b", "c")
    big = asyncio.create_task(group.commit(renewal("d") * 5))
    await asyncio.sleep(0)
    tape.gate.set()
    await asyncio.gather(first, *rest, big)
    assert tape.batches == [["first"], ["a", "b"], ["c", "d,d,d,d,d"]]


async def test_caller_cancelled_before_the_batch_is_left_out() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    a, b, c = commits(group, "a", "b", "c")
    await asyncio.sleep(0)
    b.cancel()
    tape.gate.set()
    assert [await first, await a, await c] == [
        StaleRevision("first"),
        StaleRevision("a"),
        StaleRevision("c"),
    ]
    assert tape.batches == [["first"], ["a", "c"]]
    assert b.cancelled()


async def test_caller_cancelled_during_the_batch_does_not_disturb_others() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    first.cancel()
    [second] = commits(group, "second")
    await asyncio.sleep(0)
    tape.gate.set()
    assert await second == StaleRevision("second")
    assert tape.batches == [["first"], ["second"]]


async def test_unavailable_store_is_reported_to_every_caller_of_the_batch() -> None:
    tape = Tape(lambda batch: Unavailable("the disk is full") if len(batch) > 1 else None)
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    rest = commits(group, "a", "b")
    await asyncio.sleep(0)
    tape.gate.set()
    assert await first == StaleRevision("first")
    for fault in await asyncio.gather(*rest, return_exceptions=True):
        assert isinstance(fault, Unavailable)
        assert fault.detail == "the disk is full"
    assert await group.commit(renewal("later")) == StaleRevision("later")
    assert tape.batches == [["first"], ["a", "b"], ["later"]]


async def test_fault_of_one_group_does_not_fail_the_others() -> None:
    tape = Tape(lambda batch: ValueError("b") if renewal("b") in batch else None)
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    rest = commits(group, "a", "b", "c")
    await asyncio.sleep(0)
    tape.gate.set()
    _, a, b, c = await asyncio.gather(first, *rest, return_exceptions=True)
    assert (a, c) == (StaleRevision("a"), StaleRevision("c"))
    assert isinstance(b, ValueError)
    assert tape.batches == [["first"], ["a", "b", "c"], ["a"], ["b"], ["c"]]


async def test_closing_waits_for_accepted_writes_and_accepts_no_more() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries)
    first = await start_commit(tape, group)
    [second] = commits(group, "second")
    await asyncio.sleep(0)
    closing = asyncio.create_task(group.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="is closed"):
        await group.commit(renewal("late"))
    assert not closing.done()
    tape.gate.set()
    await closing
    assert [await first, await second] == [StaleRevision("first"), StaleRevision("second")]


async def test_cancelled_runner_fails_all_waiting_callers() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries)
    before = asyncio.all_tasks()
    waiting = [await start_commit(tape, group), *commits(group, "a")]
    await asyncio.sleep(0)
    [runner] = [t for t in asyncio.all_tasks() - before if t.get_name() == "group-commit"]
    runner.cancel()
    for fault in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(fault, Unavailable)


async def test_groups_that_share_a_record_never_share_a_batch_and_keep_their_order() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries, footprint_of=footprint)
    first = await start_commit(tape, group)
    tasks = commits(group, "a", "b", "a", "c", "a", "b")
    await asyncio.sleep(0)
    tape.gate.set()
    await asyncio.gather(first, *tasks)
    assert tape.batches == [["first"], ["a", "b", "c"], ["a", "b"], ["a"]]


async def test_write_that_touches_everything_is_a_batch_of_its_own() -> None:
    tape = Tape()
    group = GroupCommit(tape.apply, ignore_entries, footprint_of=footprint)
    first = await start_commit(tape, group)
    tasks = commits(group, "a", "b")
    tasks.append(asyncio.create_task(group.commit((OUTAGE,))))
    tasks += commits(group, "c")
    await asyncio.sleep(0)
    tape.gate.set()
    await asyncio.gather(first, *tasks)
    assert tape.batches == [["first"], ["a", "b"], ["outage"], ["c"]]


@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3), max_size=30))
def test_every_group_is_applied_once_and_each_record_in_order(wanted: list[list[str]]) -> None:
    async def run() -> None:
        seen: list[tuple[str, ...]] = []

        async def apply(batch: list[Group]) -> BatchResult:
            await asyncio.sleep(0)
            names = [frozenset(w.job_id for w in g if isinstance(w, Renewal)) for g in batch]
            assert sum(map(len, names)) == len(frozenset().union(*names))
            seen.extend(tuple(w.job_id for w in g if isinstance(w, Renewal)) for g in batch)
            return BatchResult([Stored() for _ in batch])

        group = GroupCommit(apply, ignore_entries, footprint_of=footprint, writes_max=7)
        groups = [tuple(Renewal(n, i, NOON) for n in names) for i, names in enumerate(wanted)]
        assert await asyncio.gather(*(group.commit(g) for g in groups)) == [Stored()] * len(groups)
        assert sorted(seen) == sorted(map(tuple, wanted))
        for letter in "abcde":
            own = [names for names in seen if letter in names]
            assert own == [tuple(names) for names in wanted if letter in names]

    asyncio.run(run())


def test_footprint_covers_all_written_and_guarded_records() -> None:
    guards = (
        RevisionGuard("switch", "*", 1),
        LeaseExpiredGuard("job-9", 1, NOON),
        RevisionGuard("job", "job-1", 1),
    )
    change = a_step(a_job(), take=("lock/x",), free=("seat/1",), guards=guards)
    saved = RecordChange(
        before=None, after=a_product(), guards=(RevisionGuard("leader", "reaper", 2),)
    )
    writes = (change, saved, Renewal("job-2", 1, NOON), FactoriesSeen({"mac-1": NOON}))
    assert footprint(writes) == Footprint(
        written=frozenset(
            {"job/job-1", "hold/lock/x", "hold/seat/1", "product/notes", "job/job-2"}
        ),
        read=frozenset({"switch/*", "job/job-9", "leader/reaper"}),
    )
    assert footprint((replace(change), OUTAGE)).all_


async def test_readers_of_a_record_share_a_batch_and_its_writer_does_not() -> None:
    tape = Tape()
    looks = frozenset({"switch"})
    group = GroupCommit(
        tape.apply, ignore_entries, footprint_of=lambda g: Footprint(frozenset({name(g)}), looks)
    )
    first = await start_commit(tape, group)
    tasks = commits(group, "a", "b", "switch", "c")
    await asyncio.sleep(0)
    tape.gate.set()
    await asyncio.gather(first, *tasks)
    assert tape.batches == [["first"], ["a", "b"], ["switch"], ["c"]]
