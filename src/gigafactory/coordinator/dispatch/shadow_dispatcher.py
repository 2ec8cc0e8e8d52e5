"""Shadow mode: decide as the dispatcher would, and compare with the actual grants."""

from datetime import datetime
from typing import NamedTuple

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
from gigafactory.wire.fields import timestamp
from gigafactory.wire.workers import ShadowOfferView

ACTOR = "system:shadow"
OPEN_DECISIONS_MAX = 200
"""Decisions that stand at a time; each is checked whenever something changes."""
UNCLAIMED_MAX = 1000
"""Counted jobs without a claim that are remembered."""


class ShadowDecision(NamedTuple):
    """Where the dispatcher would have offered a job, and until when."""

    product_id: str
    placing: ComparedPlacement
    until: datetime


class ShadowDispatcher:
    """Decides for products in shadow mode, and counts agreement with the actual grants.

    Decisions stay in memory; comparisons are stored from time to time. A killed leader loses the
    last few of them.
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
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._dispatch = dispatch
        self._open_decisions: dict[str, ShadowDecision] = {}
        self._unclaimed: dict[str, None] = {}
        """Jobs that no factory claimed in time; counted, and not decided again."""
        self._unsaved: dict[str, ShadowFindings] = {}
        """Comparisons that are not stored yet, by product."""
        self._since: datetime | None = None
        """Since when it decides; None while it does not."""
        self._new_jobs: dict[str, datetime] = {}
        """Jobs that have become ready just now."""
        self._active_factories: dict[str, datetime] = {}
        """When a factory last did something that may have freed a seat."""
        index.subscribe(self._on_entry)
        index.on_update(self.step)

    def step(self) -> None:
        """Decide about all jobs that could be offered now; do nothing unless leading.

        It never awaits, so that all is decided before the next claim.
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
            self._open_decisions.clear()
            self._unclaimed.clear()
            self._new_jobs.clear()
            self._active_factories.clear()

    def _decide(self, now: datetime) -> None:
        index, fleet = self._index, self._index.fleet
        passed = {*self._open_decisions, *self._unclaimed}
        with fleet.hypothetical_seats(now) as suppose:
            for job_id, decision in self._open_decisions.items():
                factory_id, engine = decision.placing.factory_id, decision.placing.engine
                if (seats := fleet.seat_keys(factory_id, engine)) is not None:
                    suppose(job_id, factory_id, engine, seats)
            while len(self._open_decisions) < OPEN_DECISIONS_MAX:
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
        self._open_decisions[pick.job_id] = ShadowDecision(
            waiting.job_class.product_id, placing, until
        )
        data = ShadowOfferView(
            job_id=pick.job_id,
            factory_id=placing.factory_id,
            engine=placing.engine,
            score=placing.score,
            expires_at=timestamp(until),
        )
        self._dispatch.send(Message(factory_id=pick.factory_id, data=data))

    def _expire_decisions(self, now: datetime) -> None:
        """Count decisions that no claim followed; drop those that have become impossible."""
        for job_id, decision in list(self._open_decisions.items()):
            member = self._index.fleet.member(decision.placing.factory_id)
            if (
                not _is_present(member)
                or self._index.fleet.stop_reason(decision.product_id) is not None
            ):
                del self._open_decisions[job_id]
            elif decision.until <= now:
                del self._open_decisions[job_id]
                self._unclaimed[job_id] = None
                self._count(
                    decision.product_id, compare_placements(job_id, decision.placing, None, now=now)
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
            self._open_decisions.pop(job.id, None)
            self._unclaimed.pop(job.id, None)

    def _mark(self, moments: dict[str, datetime], key: str, now: datetime) -> None:
        # Re-insert, so that the oldest entry is always first.
        moments.pop(key, None)
        moments[key] = now

    def _compare(self, event: Event, job: Job, now: datetime) -> None:
        decision = self._open_decisions.pop(job.id, None)
        counted = job.id in self._unclaimed
        self._unclaimed.pop(job.id, None)
        why = event.data["decision"]
        if why.get("mode") != "pull" or counted:
            return
        factory_id = event.data["factoryId"]
        real = ComparedPlacement(
            factory_id=factory_id, engine=event.data["engine"], score=why["score"]
        )
        shadow = decision.placing if decision is not None else None
        if shadow is not None or self._overlooked(job, factory_id, now):
            self._count(job.product_id, compare_placements(job.id, shadow, real, now=now))

    def _overlooked(self, job: Job, factory_id: str, now: datetime) -> bool:
        """Return whether the dispatcher had time and room to offer a job, and did not."""
        assert self._since is not None, "asked while it looks"
        due = max(filter(None, (self._since, job.not_before)))
        quick = job.id in self._new_jobs or factory_id in self._active_factories
        busy = len(self._open_decisions) >= OPEN_DECISIONS_MAX
        return not quick and not busy and now - due > NOTICED_AFTER

    def _count(self, product_id: str, findings: ShadowFindings) -> None:
        self._unsaved[product_id] = self._unsaved.get(product_id, ShadowFindings()).add(findings)
        for outcome in ComparisonOutcome:
            if number := getattr(findings.counts, outcome):
                self._committer.counters.shadow_comparisons[
                    self._committer.counters.product(product_id), outcome
                ] += number

    def _forget_product(self, product_id: str) -> None:
        """Drop decisions and comparisons from before the product's mode was set."""
        self._unsaved.pop(product_id, None)
        for job_id in [j for j, d in self._open_decisions.items() if d.product_id == product_id]:
            del self._open_decisions[job_id]

    async def save_comparisons(self) -> None:
        """Store the comparisons; those that could not be stored are kept for the next call."""
        for product_id in list(self._unsaved):
            known = await self._store.record(ShadowComparison, product_id)
            findings = self._unsaved.pop(product_id, None)
            if findings is None:
                continue
            before = known or ShadowComparison(
                product_id=product_id, since=self._clock.now(), rev=0
            )
            saved = RecordChange(before=known, after=before.add_findings(findings))
            stored = False
            try:
                stored = isinstance(await self._committer.commit(ACTOR, "compare", saved), Stored)
            finally:
                if not stored:
                    self._unsaved[product_id] = findings.add(
                        self._unsaved.get(product_id, ShadowFindings())
                    )


def _is_present(member: Member | None) -> bool:
    return member is not None and member.presence in PRESENT
