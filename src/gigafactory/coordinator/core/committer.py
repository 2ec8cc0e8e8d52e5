"""The committer: every action reads, decides and commits, and tries again after a conflict.

It also implements idempotency: the answer to a request with an idempotency key is stored in the
same commit and repeated for `ANSWER_TTL`.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from gigafactory.coordinator.core.counters import Counters
from gigafactory.coordinator.core.history import History
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.errors import (
    Conflict,
    IdempotencyConflict,
    Refused,
    Unauthenticated,
    Unavailable,
)
from gigafactory.domain.insights.tally import increment_for_run, increment_for_shipping
from gigafactory.domain.job.change import (
    FLEET,
    CommitResult,
    JobChange,
    KeyTaken,
    RecordChange,
    RevisionGuard,
    StaleRevision,
    Stored,
    Write,
)
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.access import Caller, Token
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord

ANSWER_TTL = timedelta(hours=24)
HISTORY_CHANGES_MAX = 1000
ATTEMPTS_MAX = 50
"""How often an action decides again before it gives up; far more than conflicts ever need."""

Value = TypeVar("Value")


class Plan(msgspec.Struct, Generic[Value], frozen=True):
    """The decision of an action: its answer, and the writes that carry it out."""

    value: Value
    writes: tuple[Write, ...] = ()
    answer_until: datetime | None = None
    """How long the answer is kept for repetitions; None: for `ANSWER_TTL`."""
    retry_if_held: bool = False
    """If a unique key is taken, decide again with another key instead of refusing."""


def key_held(held: KeyTaken) -> Refused:
    """Return the error for a change that needs a unique key of another job."""
    return Conflict(
        f"{held.key} belongs to job {held.by}; wait until it is free, or choose another"
    )


class Committer:
    """Commits writes, with conflict retries, idempotent answers, history and counters."""

    def __init__(
        self, store: Store, clock: Clock, history: History | None, counters: Counters | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._history = history
        self.counters = counters or Counters()
        self._on_conflict: Callable[[str], Awaitable[None]] | None = None
        self._contention_locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def on_conflict(self, lost: Callable[[str], Awaitable[None]]) -> None:
        """Call a hook with the key of the changed record after each commit that lost a race."""
        self._on_conflict = lost

    async def commit(
        self, who: str, operation: str, *writes: Write, epoch: int | None = None
    ) -> CommitResult:
        """Commit once, with history; `epoch` is the one that a worker presented.

        Finished runs and jobs add entries for the rollups to the same commit.
        """
        verdict = await self._commit(who, operation, (*writes, *tally_increments(writes)), epoch)
        if isinstance(verdict, StaleRevision) and self._on_conflict is not None:
            await self._on_conflict(verdict.key)
        return verdict

    async def _commit(
        self, who: str, operation: str, writes: tuple[Write, ...], epoch: int | None
    ) -> CommitResult:
        if self._history is None:
            return await self._timed_commit(operation, writes)
        changes = [w for w in writes if isinstance(w, JobChange)]
        noted = [_describe_change(change) for change in changes[:HISTORY_CHANGES_MAX]]
        number = self._history.record_request(
            who=who, what=operation, epoch=epoch, at=self._clock.now(), changes=noted
        )
        verdict = await self._timed_commit(operation, writes)
        position = verdict.position if isinstance(verdict, Stored) else None
        self._history.record_response(number, accepted=position is not None, position=position)
        return verdict

    async def _timed_commit(self, operation: str, writes: tuple[Write, ...]) -> CommitResult:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            verdict = await self._store.commit(*writes)
        except Unavailable:
            self.counters.store_failures += 1
            raise
        self.counters.count_commit(operation, writes, verdict, clock() - started)
        return verdict

    async def attempt(self, caller: Caller, operation: str, *writes: Write) -> bool:
        """Commit several changes of a caller at once; return False if any of them was refused."""
        verdict = await self.commit(caller.actor, operation, *_with_token_guard(caller, writes))
        return isinstance(verdict, Stored)

    async def execute(
        self,
        caller: Caller,
        operation: str,
        decide: Callable[[], Awaitable[Plan[Value]]],
        of: type[Value],
        *,
        request: object = None,
        epoch: int | None = None,
        refuse_held: Callable[[KeyTaken], Refused] = key_held,
    ) -> Value:
        """Commit what `decide` plans, and let it decide again after each conflict.

        With an idempotency key, the same request gets the same answer for a day; the answer is
        stored in the same commit. Raises what `decide` raises, IdempotencyConflict for a key that
        was used for another request, and what `held` makes of a key that is taken.
        """
        key, digest = _idempotency_key(caller, operation, request)
        turn: AbstractAsyncContextManager[None] = nullcontext()
        for _ in range(ATTEMPTS_MAX):
            async with turn:
                stale = await self._store.record(IdempotencyRecord, key) if key else None
                record = stale or await self._legacy_answer(caller, key, digest)
                if record is not None and record.expires_at > self._clock.now():
                    return msgspec.json.decode(_require_same_request(record, digest).value, type=of)
                plan = await decide()
                if not plan.writes and key is None:
                    return plan.value
                answer_writes = self._answer_write(
                    key, digest, plan.value, stale, plan.answer_until
                )
                writes = _with_token_guard(caller, (*plan.writes, *answer_writes))
                verdict = await self.commit(caller.actor, operation, *writes, epoch=epoch)
            match verdict:
                case Stored():
                    return plan.value
                case KeyTaken() as taken if not plan.retry_if_held:
                    raise refuse_held(taken)
                case KeyTaken():
                    continue
                case StaleRevision(key=moved):
                    await self.require_valid_token(caller)
                    turn = self.contention_lock(moved)
        raise Conflict("too many concurrent changes; try again in a moment")

    async def _legacy_answer(
        self, caller: Caller, key: str | None, digest: str
    ) -> IdempotencyRecord | None:
        """Return the answer to this request that an older version kept under the name alone."""
        if key is None or (legacy := f"{caller.actor}/{caller.request_key}") == key:
            return None
        record = await self._store.record(IdempotencyRecord, legacy)
        return record if record is not None and record.request_hash == digest else None

    def contention_lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Return a lock for a contended budget, so that those who lost a race for it take turns."""
        of_all = key.startswith((f"{Budget.kind}/", f"{Ceiling.kind}/"))
        return self._contention_locks[key] if of_all else nullcontext()

    async def recorded_answers(
        self, caller: Caller, operation: str, request: object, of: type[Value], *, most: int
    ) -> list[Value]:
        """Return the recorded partial answers of a request with this idempotency key."""
        key, digest = _idempotency_key(caller, operation, request)
        if key is None:
            return []
        answers = await self._store.records(IdempotencyRecord, prefix=f"{key}#", limit=most)
        fresh = [a for a in answers if a.expires_at > self._clock.now()]
        return [msgspec.json.decode(_require_same_request(a, digest).value, type=of) for a in fresh]

    def record_answer(
        self, caller: Caller, operation: str, request: object, name: str, value: object
    ) -> tuple[RecordChange, ...]:
        """Return the write that records one partial answer, to be stored with its change."""
        key, digest = _idempotency_key(caller, operation, request)
        return self._answer_write(key and f"{key}#{name}", digest, value, None, None)

    async def require_valid_token(self, caller: Caller) -> None:
        """Raise if the caller's token has changed since it was looked up.

        Raises Unauthenticated.
        """
        token = caller.token
        if token is not None and await self._store.record(Token, token.key) != token:
            raise Unauthenticated("the token was revoked or rotated; get a new one")

    def _answer_write(
        self,
        key: str | None,
        digest: str,
        value: object,
        stale: IdempotencyRecord | None,
        until: datetime | None,
    ) -> tuple[RecordChange, ...]:
        if key is None:
            return ()
        answer = IdempotencyRecord(
            key=key,
            request_hash=digest,
            value=msgspec.Raw(msgspec.json.encode(value)),
            expires_at=until or self._clock.now() + ANSWER_TTL,
            rev=stale.rev + 1 if stale else 1,
        )
        return (RecordChange(before=stale, after=answer),)


def tally_increments(writes: tuple[Write, ...]) -> Iterator[RecordChange]:
    """Yield the run deltas that these writes add to the tallies."""
    for write in writes:
        if isinstance(write, JobChange):
            if (increment := increment_for_shipping(write.before, write.after)) is not None:
                yield RecordChange(before=None, after=increment)
        elif isinstance(write, RecordChange) and isinstance(write.after, Run):
            before = write.before if isinstance(write.before, Run) else None
            if (increment := increment_for_run(before, write.after)) is not None:
                yield RecordChange(before=None, after=increment)


def _with_token_guard(caller: Caller, writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """Guard the writes of a caller by the revision of its token."""
    token = caller.token
    if token is None:
        return writes
    guard = RevisionGuard("token", token.key, token.rev)
    first, *rest = writes
    if not isinstance(first, JobChange | RecordChange):
        return writes
    return (msgspec.structs.replace(first, guards=(*first.guards, guard)), *rest)


def _require_same_request(answer: IdempotencyRecord, digest: str) -> IdempotencyRecord:
    if answer.request_hash != digest:
        message = "this Idempotency-Key was used for another request within 24 hours; use a new one"
        raise IdempotencyConflict(message)
    return answer


def _describe_change(change: JobChange) -> dict[str, object]:
    job = change.after
    return {
        "job": job.id,
        "product": job.product_id,
        "stage": job.stage,
        "seq": job.seq,
        "rev": job.rev,
        "leaseEpoch": job.lease_epoch,
        "holder": job.lease.factory_id if job.lease else None,
        "took": change.take,
        "freed": change.free,
        "events": [event.type for event in change.events],
    }


def _idempotency_key(caller: Caller, operation: str, request: object) -> tuple[str | None, str]:
    if caller.request_key is None:
        return None, ""
    # The scope is part of the question: two tokens of one name may cover different tenants.
    encoded = msgspec.json.encode((operation, caller.product, caller.products, request))
    return _answer_key(caller, caller.request_key), hashlib.sha256(encoded).hexdigest()


def _answer_key(caller: Caller, request_key: str) -> str:
    """Return the key of a caller's answer; people of one name in two tenants have different ones.

    Neither actors nor request keys contain spaces.
    """
    scoped = caller.role is not None and FLEET not in caller.products
    scope = f" {','.join(sorted(caller.products))}" if scoped else ""
    return f"{caller.actor}{scope}/{request_key}"
