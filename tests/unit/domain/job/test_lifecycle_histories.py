"""Every promise holds in every history of workers, reaper, dispatcher and people."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from gigafactory.domain.errors import Fenced, Refused
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job import offer as offers
from gigafactory.domain.job import operator_actions as decisions
from gigafactory.domain.job import run_outcome as outcome
from gigafactory.domain.job.change import JobChange, Renewal
from gigafactory.domain.job.job import Job, Result, Stage, Step, Terms
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.job.retry import LOST_INSTANCES_MAX
from gigafactory.domain.job.run_outcome import WORKER_RESULTS, Progress
from tests.support.builders import NOON, TTL, a_checkpoint, a_job
from tests.support.one_job_store import OneJobStore

pytestmark = pytest.mark.slow

FACTORIES = ("mac-1", "linux-1")
PEOPLE = ("user:ann", "user:bob", "user:cat")
STEPS = 60
RESULTS = (*sorted(WORKER_RESULTS), *[Result.SCOPE_VIOLATION, Result.CRASH] * 3)
YES_OR_NO = (True, False)
WORTH_TELLING = {
    *("approved", "cancelled", "changes_requested", "dead_lettered", "fenced", "lease_expired"),
    *("preempt_requested", "promoted", "rejected", "released", "requeued", "retry_scheduled"),
    *("scope_overridden", "ship_failed", "ship_requested", "shipped", "taken_up", "tested"),
}

Value = TypeVar("Value")

Word = Callable[[Job, str, int, Progress, datetime], JobChange | Renewal | None]
WORDS: dict[str, Word] = {
    "progress": lambda j, f, e, p, now: outcome.record_progress(j, f, e, p, now=now),
    "start": lambda j, f, e, p, now: outcome.start_building(j, f, e, p, now=now),
    "done": lambda j, f, e, p, now: outcome.succeed(j, f, e, p, wants=Stage.TESTING, now=now),
    "look": lambda j, f, e, p, now: outcome.succeed(j, f, e, p, wants=Stage.REVIEW, now=now),
    "shipped": lambda j, f, e, p, now: outcome.complete_ship(j, f, e, p, now=now),
    "renew": lambda j, f, e, _, now: leases.renew(j, f, e, now=now, ttl=TTL),
}
Deed = Callable[[Job, str, datetime], JobChange]
DEEDS: dict[str, Deed] = {
    "approve": lambda j, by, now: decisions.approve(j, by, "", j.head, now=now),
    "reject": lambda j, by, now: decisions.reject(j, by, "wrong", None, now=now),
    "request-changes": lambda j, by, now: decisions.request_changes(j, by, "tabs", None, now=now),
    "request-review": lambda j, by, now: decisions.request_review(
        j, by, ("bob", "cat") if by == "user:ann" else (), None, "", now=now
    ),
    "ship": lambda j, by, now: decisions.request_ship(j, by, j.head, now=now),
    "override-scope": lambda j, by, now: decisions.override_scope(j, by, "fine", now=now),
    "requeue": lambda j, by, now: decisions.requeue(j, by, fresh=by == "user:ann", now=now),
    "cancel": lambda j, by, now: decisions.cancel(j, by, "", now=now),
    "promote": lambda j, by, now: decisions.promote(j, by, now=now),
    "preempt": lambda j, by, now: leases.request_preemption(j, by, "", now=now),
    "release": lambda j, by, now: decisions.release(j, by, "", now=now),
}


class History:
    """One job, people, two factories with delayed workers, and a clock that may go back."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shelf = OneJobStore(a_job(terms=self.terms(), lock=self.either(None, "db")))
        self.now = NOON
        self.due: datetime | None = None
        self.lost = 0
        self.verified = False
        self.workers: list[tuple[str, int]] = []
        self.fenced: set[tuple[str, int]] = set()

    @property
    def job(self) -> Job:
        return self.shelf.job

    def either(self, *values: Value) -> Value:
        return self.random.choice(values)

    def terms(self) -> Terms:
        return Terms(
            retry_max=self.either(0, 1, 2),
            retry_backoff_s=self.either(0.0, 20.0, 300.0),
            retry_on=self.either(None, (Result.NO_CHANGE, Result.CRASH)),
            verify=self.either(*YES_OR_NO),
            review_by_people=self.either(*YES_OR_NO),
            reviewers=self.either((), ("bob", "cat")),
            quorum=self.either(1, 2),
            ship=self.either("merge", "merge", "none"),
            auto_ship=self.either(*YES_OR_NO),
        )

    def draw_progress(self) -> Progress:
        commit = self.either(None, None, "abc", "def", "fed")
        return Progress(
            checkpoint=a_checkpoint(commit, session_id=self.either("s", "t")) if commit else None,
            verify=self.either(None, *[{"passed": True}] * 4, {"passed": False}),
            diff=self.either(None, None, {}, {"protected": ["x"]}),
            note=self.either(None, "push abc to main"),
        )

    def play(self, steps: int) -> None:
        """Let random actors act `steps` times."""
        for _ in range(steps):
            self.either(*self.moves())()
            assert self.job.finished or self.job.lost == self.lost

    def moves(self) -> list[Callable[[], None]]:
        """Return the possible next actors; those with something to do are more likely."""
        moves = [self.time_passes, self.offer, self.act, *[self.claim] * 3]
        if self.workers:
            moves.append(self.wake_up)
        if self.job.offer is not None:
            moves.append(self.withdraw)
        if self.job.lease is not None:
            moves += [self.fail, self.reap, self.restart, self.take_up, *[self.work] * 8]
        if self.job.ending:
            moves.append(self.stop)
        if self.job.stage in {Stage.REVIEW, Stage.TESTING} or self.left_its_scope:
            moves += [self.decide] * 6
        return moves

    def settle(self, rule: Callable[[], JobChange | Renewal | None]) -> JobChange | Renewal | None:
        """Apply a rule and commit its change; return None if it refuses."""
        try:
            write = rule()
        except Fenced:
            raise
        except Refused:
            return None
        if write is None or not self.shelf.commit(write):
            return None
        if isinstance(write, JobChange):
            assert not self.shelf.commit(write), "a change is stored once"
            self.learn(write)
        return write

    def learn(self, change: JobChange) -> None:
        """Track the expected state from events alone, and compare it with the job."""
        for event in change.events:
            match event.type:
                case "retry_scheduled":
                    self.due = datetime.fromisoformat(event.data["notBefore"])
                case "assigned":
                    assert self.due is None or self.now >= self.due, "not before its back-off"
                    self.due = None
                    self.verified = self.verified and event.data["step"] == "ship"
                case "verify_passed" | "verify_failed":
                    self.verified = event.type == "verify_passed"
                case "requeued":
                    self.due, self.lost = None, 0
                case "tested" | "review_requested":
                    looked_at = event.type == "review_requested" and not self.job.terms.verify
                    assert self.verified or looked_at, "nothing passes unseen and unverified"
                case _:
                    pass
        self.learn_losses(change)

    def learn_losses(self, change: JobChange) -> None:
        before, after = change.before, change.after
        if before is None or before.lease is None or before.lease.step is Step.SHIP:
            return
        kinds = {event.type for event in change.events}
        if after.head != before.head:
            self.lost = 0
        if "lease_expired" in kinds:
            self.lost = 0 if before.preemption else self.lost + 1
            assert ("dead_lettered" in kinds) == (self.lost == LOST_INSTANCES_MAX)
        elif after.lease is None and after.ending == before.ending:
            self.lost = 0

    def time_passes(self) -> None:
        self.now += timedelta(seconds=self.either(-5, 1, 10, 30, 100, 4000))

    def claim(self) -> None:
        before, factory_id = self.job, self.either(*FACTORIES)
        seats = (f"slot/{factory_id}/{self.either(0, 1, 2)}",)
        grant = partial(leases.grant, before, now=self.now, ttl=TTL)
        # Every loss is that of another process: three in a row are poison.
        process = f"process-{before.lease_epoch}"
        if self.settle(lambda: grant(factory_id, process, "claude", seats=seats)):
            self.workers.append(self.owner())
            assert not self.shelf.commit(grant("rival", "b", None)), "of two claimers one wins"

    def owner(self) -> tuple[str, int]:
        assert self.job.lease is not None
        return self.job.lease.factory_id, self.job.lease.epoch

    def work(self) -> None:
        self.speak(self.owner())

    def wake_up(self) -> None:
        factory_id, epoch = self.either(*self.workers)
        self.speak((self.either(factory_id, factory_id, *FACTORIES), epoch))

    def speak(self, worker: tuple[str, int]) -> None:
        word, actual = WORDS[self.either(*WORDS, "start", "done", "shipped")], self.draw_progress()
        self.hear(worker, lambda job: word(job, *worker, actual, self.now))

    def fail(self) -> None:
        owner, result, actual = self.owner(), self.either(*RESULTS), self.draw_progress()
        self.hear(owner, lambda job: outcome.fail(job, *owner, result, "", actual, now=self.now))

    def hear(
        self, worker: tuple[str, int], word: Callable[[Job], JobChange | Renewal | None]
    ) -> None:
        """Deliver a worker's report; it is fenced unless the worker holds the live lease."""
        job = self.job
        if job.lease is not None and worker == self.owner():
            self.settle(lambda: word(job))
            return
        with pytest.raises(Fenced):
            word(job)
        self.settle(lambda: leases.record_fenced(job, *worker, now=self.now))
        assert self.job.rev == job.rev
        assert (self.job.seq > job.seq) == (worker not in self.fenced)
        self.fenced.add(worker)

    def act(self) -> None:
        deed, by = self.either(*(actions_of(self.job) or DEEDS)), self.either(*PEOPLE)
        self.settle(lambda: DEEDS[deed](self.job, by, self.now))

    @property
    def left_its_scope(self) -> bool:
        return self.job.stage is Stage.FAILED and self.job.result is Result.SCOPE_VIOLATION

    def decide(self) -> None:
        deed = self.either("approve", "approve", "ship", "request-changes", "override-scope")
        by = self.either(*PEOPLE)
        self.settle(lambda: DEEDS[deed](self.job, by, self.now))

    def reap(self) -> None:
        job = self.job
        assert job.lease is not None
        write = self.settle(lambda: leases.expire(job, now=self.now))
        assert (write is not None) == (job.lease.expires_at <= self.now), "only what has expired"

    def restart(self) -> None:
        self.settle(lambda: leases.expire(self.job, now=self.now, restarted=True))

    def take_up(self) -> None:
        process = f"restarted-{self.job.lease_epoch}"
        self.settle(lambda: leases.resume_lease(self.job, process, now=self.now))

    def stop(self) -> None:
        ending, expired = self.job.ending[0], self.either(*YES_OR_NO)
        stopped = partial(leases.release_revoked, self.job, ending.epoch, now=self.now, actor="x")
        write = self.settle(lambda: stopped(expired=expired))
        assert (write is not None) == (not expired or ending.expires_at <= self.now)

    def offer(self) -> None:
        to = self.either(*FACTORIES)
        self.settle(lambda: offers.offer(self.job, to, None, now=self.now, decision={}))

    def withdraw(self) -> None:
        self.settle(lambda: offers.withdraw(self.job, "lapsed", now=self.now, actor="x"))


def count_events(seeds: range) -> Counter[str]:
    """Run the histories of these seeds and return the number of events of each type."""
    actual: Counter[str] = Counter()
    for seed in seeds:
        history = History(seed)
        history.play(STEPS)
        actual.update(event.type for event in history.shelf.events)
    return actual


@pytest.mark.parametrize("first", range(0, 1500, 300))
def test_every_history_keeps_every_promise(first: int) -> None:
    actual = count_events(range(first, first + 300))
    assert not WORTH_TELLING - actual.keys(), "what never happens is not tested"
