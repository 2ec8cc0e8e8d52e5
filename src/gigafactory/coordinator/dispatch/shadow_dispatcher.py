"""The dispatcher in shadow: what it would offer, compared with what factories ask for and get."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Clock, Dispatch, Message, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.fleet.pool import Member
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry, RecordChange, Stored
from gigafactory.domain.job.job import Event, Job
from gigafactory.domain.job.lifecycle import is_ready
from gigafactory.domain.job.offer import OFFER_TTL
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.rejections import PRESENT
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.tenancy.dispatch_mode import (
    NOTICED_AFTER,
    ComparedPlacement,
    ComparisonOutcome,
    ShadowComparison,
    ShadowFindings,
    compare_placements,
)

WHO = "system:shadow"
STANDING_MAX = 200
"""So many decisions stand at a time: each of them is looked at whenever something has changed."""
UNCLAIMED_MAX = 1000
"""Of so many jobs that nobody came for it is remembered that they were counted."""


class ShadowDecision(NamedTuple):
    """Where the dispatcher would have a job, until when it would wait for an answer."""

    product_id: str
    placing: ComparedPlacement
    until: datetime


class ShadowDispatcher:
    """Decides as the dispatcher does, for products in shadow, and counts what it is compared with.

    Decisions live in memory, as those of a leader do; what comparisons come to is written down now
    and then. A leader that is killed takes the last few of them along.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        leadership: Leadership,
        dispatch: Dispatch,
    ) -> None:
        """Decide whenever the index has taken in something new."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._dispatch = dispatch
        self._standing: dict[str, ShadowDecision] = {}
        self._unclaimed: dict[str, None] = {}
        """Jobs that nobody came for in time, as was counted: they are decided about once."""
        self._unsaved: dict[str, ShadowFindings] = {}
        """What is not written down yet, by product."""
        self._since: datetime | None = None
        """When it began to look; None while it does not."""
        self._new_jobs: dict[str, datetime] = {}
        """Jobs that have begun to wait a moment ago."""
        self._active_factories: dict[str, datetime] = {}
        """When a factory last did something by which it may have got room."""
        index.subscribe(self._on_entry)
        index.on_update(self.step)

    def step(self) -> None:
        """Decide about all that could be offered now; nothing unless this coordinator leads.

        It waits for nothing: whoever asks for work next finds everything decided.
        """
        if not self._index.dispatch_modes.any_shadow:
            self._reset()
            return
        now = self._clock.now()
        if not self._leadership.is_leader(now):
            self._reset()
            return
        self._since = self._since or now
        self._index.fleet.advance(now)
        self._drop_old_moments(now)
        self._expire_decisions(now)
        self._decide(now)

    def _reset(self) -> None:
        if self._since is not None:
            self._since = None
            self._standing.clear()
            self._unclaimed.clear()
            self._new_jobs.clear()
            self._active_factories.clear()

    def _decide(self, now: datetime) -> None:
        index, fleet = self._index, self._index.fleet
        passed = {*self._standing, *self._unclaimed}
        with fleet.hypothetical_seats(now) as suppose:
            for job_id, decided in self._standing.items():
                factory_id, engine = decided.placing.factory_id, decided.placing.engine
                if (seats := fleet.seat_keys(factory_id, engine)) is not None:
                    suppose(job_id, factory_id, engine, seats)
            while len(self._standing) < STANDING_MAX:
                pick = pick_offer(
                    index.queue,
                    fleet,
                    now=now,
                    only=index.streaming_factories,
                    skip=passed,
                    product_filter=index.dispatch_modes.is_shadow,
                )
                if pick is None:
                    return
                passed.add(pick.job_id)
                suppose(pick.job_id, pick.factory_id, pick.engine, pick.seats)
                self._publish(pick, now)

    def _publish(self, pick: Pick, now: datetime) -> None:
        waiting = self._index.queue.find(pick.job_id)
        assert waiting is not None, "it was picked from the queue"
        placing = ComparedPlacement(
            factory_id=pick.factory_id, engine=pick.engine, score=pick.decision.score
        )
        until = now + OFFER_TTL
        self._standing[pick.job_id] = ShadowDecision(waiting.job_class.product_id, placing, until)
        data = {"jobId": pick.job_id, **msgspec.to_builtins(placing), "expiresAt": until}
        self._dispatch.send(Message(factory_id=pick.factory_id, event="shadow", data=data))

    def _expire_decisions(self, now: datetime) -> None:
        """What nobody came for in time is counted; what could not be had is decided anew."""
        for job_id, decided in list(self._standing.items()):
            member = self._index.fleet.member(decided.placing.factory_id)
            if (
                not _is_present(member)
                or self._index.fleet.stop_reason(decided.product_id) is not None
            ):
                del self._standing[job_id]
            elif decided.until <= now:
                del self._standing[job_id]
                self._unclaimed[job_id] = None
                self._count(
                    decided.product_id, compare_placements(job_id, decided.placing, None, now=now)
                )
        while len(self._unclaimed) > UNCLAIMED_MAX:
            del self._unclaimed[next(iter(self._unclaimed))]

    def _drop_old_moments(self, now: datetime) -> None:
        for moments in (self._new_jobs, self._active_factories):
            while moments and now - next(iter(moments.values())) > NOTICED_AFTER:
                del moments[next(iter(moments))]

    def _on_entry(self, entry: FeedEntry) -> None:
        event, job = entry.event, entry.job
        if event.type == event_types.DISPATCH_CHANGED:
            self._forget_product(event.product_id)
        if self._since is None:
            return
        now = self._clock.now()
        if event.actor.startswith("factory:") and event.type != event_types.ASSIGNED:
            self._mark(self._active_factories, event.actor.removeprefix("factory:"), now)
        if job is None or not self._index.dispatch_modes.is_shadow(job.product_id):
            return
        if event.type == event_types.ASSIGNED:
            self._compare(event, job, now)
        elif is_ready(job, now):
            self._mark(self._new_jobs, job.id, now)
        else:
            self._standing.pop(job.id, None)
            self._unclaimed.pop(job.id, None)

    def _mark(self, moments: dict[str, datetime], key: str, now: datetime) -> None:
        # At the end, so that the oldest is always the first.
        moments.pop(key, None)
        moments[key] = now

    def _compare(self, event: Event, job: Job, now: datetime) -> None:
        decided = self._standing.pop(job.id, None)
        counted = job.id in self._unclaimed
        self._unclaimed.pop(job.id, None)
        why = event.data["decision"]
        if why.get("mode") != "pull" or counted:
            return
        factory_id = event.data["factoryId"]
        real = ComparedPlacement(
            factory_id=factory_id, engine=event.data["engine"], score=why["score"]
        )
        shadow = decided.placing if decided is not None else None
        if shadow is not None or self._overlooked(job, factory_id, now):
            self._count(job.product_id, compare_placements(job.id, shadow, real, now=now))

    def _overlooked(self, job: Job, factory_id: str, now: datetime) -> bool:
        """Whether the dispatcher had the time to offer a job, and room for it, and did not."""
        assert self._since is not None, "asked while it looks"
        due = max(filter(None, (self._since, job.not_before)))
        quick = job.id in self._new_jobs or factory_id in self._active_factories
        busy = len(self._standing) >= STANDING_MAX
        return not quick and not busy and now - due > NOTICED_AFTER

    def _count(self, product_id: str, found: ShadowFindings) -> None:
        self._unsaved[product_id] = self._unsaved.get(product_id, ShadowFindings()).add(found)
        for outcome in ComparisonOutcome:
            if number := getattr(found.counts, outcome):
                self._committer.counters.shadow_comparisons[
                    self._committer.counters.product(product_id), outcome
                ] += number

    def _forget_product(self, product_id: str) -> None:
        """What was decided and found before a product's way was set is nothing to go by."""
        self._unsaved.pop(product_id, None)
        for job_id in [j for j, d in self._standing.items() if d.product_id == product_id]:
            del self._standing[job_id]

    async def save_comparisons(self) -> None:
        """Write down what comparisons came to; what could not be written waits for the next."""
        for product_id in list(self._unsaved):
            known = await self._store.record(ShadowComparison, product_id)
            found = self._unsaved.pop(product_id, None)
            if found is None:
                continue
            before = known or ShadowComparison(
                product_id=product_id, since=self._clock.now(), rev=0
            )
            saved = RecordChange(before=known, after=before.add_findings(found))
            stored = False
            try:
                stored = isinstance(await self._committer.commit(WHO, "compare", saved), Stored)
            finally:
                if not stored:
                    self._unsaved[product_id] = found.add(
                        self._unsaved.get(product_id, ShadowFindings())
                    )


def _is_present(member: Member | None) -> bool:
    return member is not None and member.presence in PRESENT
