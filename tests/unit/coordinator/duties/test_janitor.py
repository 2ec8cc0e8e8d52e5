"""The janitor removes all expired records, in few commits."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from gigafactory.coordinator.core.ports import PAGE_MAX, AnyRecord
from gigafactory.domain.job.change import CommitResult, RecordChange, Write
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import a_coordinator
from tests.support.builders import after
from tests.support.memory_coordinator import ManualClock

MANY = 2 * PAGE_MAX + 7


class CountingStore(MemoryStore):
    """A store that counts commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    async def commit(self, *writes: Write) -> CommitResult:
        self.commits += 1
        return await super().commit(*writes)


def an_answer(number: int, until: datetime) -> IdempotencyRecord:
    return IdempotencyRecord(
        key=f"user:ann/{number:05}", request_hash="x", value=msgspec.Raw(b"1"), expires_at=until
    )


async def test_all_expired_answers_are_removed_in_one_step_with_few_commits(
    tmp_path: Path,
) -> None:
    store, clock = CountingStore(), ManualClock()
    fleet = a_coordinator(tmp_path, store=store, clock=clock)
    for number in range(MANY):
        answer = an_answer(number, after(10))
        await store.commit(RecordChange(before=None, after=answer))
    await store.commit(RecordChange(before=None, after=an_answer(MANY, after(1000))))
    clock.seconds = 20.0
    before = store.commits
    await fleet.janitor.step()
    kept = await store.records(IdempotencyRecord)
    assert [answer.key for answer in kept] == [f"user:ann/{MANY:05}"]
    assert store.commits - before < MANY / 50


class ChangingStore(MemoryStore):
    """A store in which one expired record changes before each first attempt to remove it."""

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        found = await super().expired_records(of, now, limit=limit)
        if found and isinstance(first := found[0], IdempotencyRecord):
            renewed = msgspec.structs.replace(first, expires_at=after(1000), rev=2)
            await self.commit(RecordChange(before=first, after=renewed))
        return found


async def test_a_record_that_changes_meanwhile_stays_and_stops_no_other(tmp_path: Path) -> None:
    store, clock = ChangingStore(), ManualClock()
    fleet = a_coordinator(tmp_path, store=store, clock=clock)
    for number in range(5):
        await store.commit(RecordChange(before=None, after=an_answer(number, after(10))))
    clock.seconds = 20.0
    await fleet.janitor.step()
    kept = await store.records(IdempotencyRecord)
    assert [answer.key for answer in kept] == ["user:ann/00000"]
