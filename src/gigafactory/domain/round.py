"""One decision in the making: the queue and the fleet as they are at one moment."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal, NamedTuple

from gigafactory.domain.decision import RUNNERS_UP_MAX, Decision, Pick, RunnerUp
from gigafactory.domain.fleet import FleetView
from gigafactory.domain.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.pool import Member, Pool, Presence
from gigafactory.domain.product import Weights
from gigafactory.domain.ready import ReadyQueue, excluded
from gigafactory.domain.scoring import Appraisal, choose_engine, cost_fit, rejection
from gigafactory.domain.waiting import JobClass, Waiting

AGEING_STEP_S = 3600.0
PATIENCE_S = 24 * 3600.0
ROUNDING = 1e-9
PRESENT = frozenset({Presence.FRESH, Presence.FADING})

Order = tuple[int, bool, bool, float, int]
Named = AbstractSet[str]


class Candidate(NamedTuple):
    """A job on a factory that could have it; the lesser is the better one.

    Best score, then oldest, then lowest cost class, then ids: nothing after them is ever compared.
    """

    penalty: float
    created: float
    cost_class: int
    job_id: str
    factory_id: str
    job: Waiting
    member: Member
    choice: EngineChoice

    @staticmethod
    def of(score: float, job: Waiting, member: Member, choice: EngineChoice) -> "Candidate":
        """Make the candidate of a job and a factory that fit so well."""
        factory = member.factory
        order = (-score, job.created, factory.cost_class, job.job_id, factory.id)
        return Candidate(*order, job, member, choice)

    @property
    def score(self) -> float:
        """How well the two fit."""
        return -self.penalty


class Standing(NamedTuple):
    """What a product had lately, and how far its jobs may rise."""

    due: float | None
    """Its seat-time over its share: the least goes first. None when it gets nothing just now."""
    best: int
    """The rank above which none of its jobs rises."""


class Others(NamedTuple):
    """Who else could have had a job, and how many could not."""

    runners_up: tuple[RunnerUp, ...]
    rejections: dict[str, int]


class Round:
    """Orders, scores and explains for one decision."""

    def __init__(
        self, queue: ReadyQueue, fleet: FleetView, now: datetime, only: Named | None = None
    ) -> None:
        queue.advance(now)
        fleet.advance(now)
        self.fleet = fleet
        self.now = now
        self.considered = 0
        self._at = now.timestamp()
        self._only = only
        self._rare = fleet.rarities(queue.demanded)
        self._reach = fleet.reach(queue.kinds)
        self._urgency = queue.urgency
        self._standings: dict[str, Standing] = {}
        self._weights: dict[str, Weights] = {}
        self._appraisals: dict[tuple[str, Pool], Appraisal] = {}
        self._known: dict[JobClass, Others] = {}
        self._open = [pool for pool in fleet.pools() if self._is_open(pool)]

    @property
    def crowded(self) -> bool:
        """Whether no factory that could be asked has a free slot."""
        return not self._open

    def order(self, job: Waiting) -> Order | None:
        """Give the place of a job before any score: class with ageing, promoted, choosy, share.

        No class is above the first, and jobs of a product that had more than its share lately rise
        no further than the most urgent of them, or the deepest backlog would be served first
        whatever the shares are; what has waited for a day rises all the same.
        None for a product that gets nothing just now, or cannot pay for this.
        """
        kind = job.job_class
        standing = self._standing(kind.product_id)
        if standing.due is None or self.fleet.unaffordable(kind, self.now) is not None:
            return None
        waited = max(0.0, self._at - job.since)
        rank = kind.rank - int(waited // AGEING_STEP_S)
        best = standing.best if waited < PATIENCE_S else 0
        yields = self._reach.yields(kind)
        return (max(best, rank), not job.front, yields, standing.due, rank)

    def scored(self, job: Waiting, member: Member, fit: Fit, choice: EngineChoice) -> Candidate:
        """Score a job on one factory with one engine."""
        appraisal = self._appraise(job, member.pool, fit)
        wishes = appraisal.affinity(choice, member.factory.id)
        score = appraisal.score(wishes, member.room.load, self._health(member))
        return Candidate.of(score, job, member, choice)

    def candidates(self, job: Waiting, depth: int) -> list[Candidate]:
        """Give factories that could have a job: of those that are alike, the best `depth`.

        Alike are factories of one shape with the same room, unless the job names one of them.
        """
        pinned, named = job.job_class.pinned, job.job_class.named
        if pinned:
            return self._singly(job, pinned if len(pinned) == 1 else frozenset())
        if job.checkpoint is not None:
            named |= {job.checkpoint}
        found = self._singly(job, named)
        for pool in self._open:
            fit = self.fleet.fit(job.job_class, pool)
            if not isinstance(fit, Rejection):
                found += self._alike(job, pool, fit, named, depth)
                found += self._singly(job, pool.odd[Presence.FADING] - named)
        return found

    def pick(self, best: Candidate, mode: Literal["pull", "push"]) -> Pick | None:
        """Make the answer of the best candidate; None when its seats are taken after all."""
        factory_id, engine = best.member.factory.id, best.choice.engine
        seats = self.fleet.seats(factory_id, engine)
        if seats is None:
            return None
        return Pick(
            job_id=best.job.job_id,
            factory_id=factory_id,
            engine=engine,
            step=best.job.job_class.step,
            seats=seats,
            decision=self._decision(best, mode),
        )

    def rejections(self, job: Waiting) -> dict[str, int]:
        """Count the factories that are no candidates for a job, by reason."""
        counts: dict[str, int] = {}
        for pool in self.fleet.pools():
            fit = self.fleet.fit(job.job_class, pool)
            if isinstance(fit, Rejection):
                found = {fit.code: len(pool.members)}
            elif job.job_class.pinned:
                found = self._unpinned(job, pool)
            else:
                found = self._passing(job, pool, fit)
            for code, count in found.items():
                counts[code] = counts.get(code, 0) + count
        return {code: counts[code] for code in sorted(counts) if counts[code]}

    def _decision(self, best: Candidate, mode: Literal["pull", "push"]) -> Decision:
        job, member, choice = best.job, best.member, best.choice
        fit = self.fleet.fit(job.job_class, member.pool)
        assert isinstance(fit, Fit), "a candidate fits"
        appraisal = self._appraise(job, member.pool, fit)
        wishes = appraisal.affinity(choice, member.factory.id)
        score = appraisal.breakdown(wishes, member.room.load, self._health(member))
        others = self._others(job, member, mode)
        return Decision(
            mode=mode,
            score=score.total,
            matched=fit.matched,
            terms=score.terms,
            runners_up=others.runners_up,
            rejections=others.rejections,
            considered=self.considered,
        )

    def _others(self, job: Waiting, member: Member, mode: Literal["pull", "push"]) -> Others:
        """Give who else could have had the job.

        When one factory pulls many that are alike, that is worked out for the first: meanwhile only
        the room of that factory changes, and it is not among the others.
        """
        alike = mode == "pull" and not job.exclusions and job.checkpoint is None
        known = self._known.get(job.job_class) if alike else None
        if known is not None:
            return known
        able = [c for c in self.candidates(job, RUNNERS_UP_MAX + 1) if c.member is not member]
        best = sorted(able)[:RUNNERS_UP_MAX]
        runners_up = tuple(RunnerUp(c.factory_id, c.choice.engine, c.score) for c in best)
        found = Others(runners_up, self.rejections(job))
        if alike:
            self._known[job.job_class] = found
        return found

    def _is_open(self, pool: Pool) -> bool:
        some = bool(pool.open or pool.odd[Presence.FADING])
        return some and (self._only is None or not pool.members.keys().isdisjoint(self._only))

    def _standing(self, product_id: str) -> Standing:
        if not self._standings:
            self._standings = self._stand(self._urgency)
        return self._standings[product_id]

    def _stand(self, urgency: Mapping[str, int]) -> dict[str, Standing]:
        """Work out whose turn it is, and who of those that wait had more than its share."""
        fleet, now = self.fleet, self.now
        used = {p: fleet.used(p, now) for p in urgency if fleet.stopped(p) is None}
        shares = {product_id: fleet.share(product_id) for product_id in used}
        level = sum(had * shares[p] for p, had in used.items())
        level = level / sum(shares.values()) * (1.0 + ROUNDING) if shares else 0.0
        return {
            p: Standing(fleet.due(p, now), urgency[p] if used[p] > level else 0)
            if p in used
            else Standing(None, 0)
            for p in urgency
        }

    def _appraise(self, job: Waiting, pool: Pool, fit: Fit) -> Appraisal:
        known = self._appraisals.get((job.job_id, pool))
        if known is None:
            known = self._appraisals[job.job_id, pool] = self._work_out(job, pool, fit)
        return known

    def _work_out(self, job: Waiting, pool: Pool, fit: Fit) -> Appraisal:
        product_id, ask = job.job_class.product_id, job.job_class.ask
        weights = self._weights.get(product_id)
        if weights is None:
            weights = self._weights[product_id] = self.fleet.product(product_id).weights
        left = self.fleet.budget_left.get(product_id)
        return Appraisal(
            job,
            fit,
            weights,
            cost=cost_fit(pool.traits.cost_class, ask.budget_nano_usd, left),
            waited_s=self._at - job.since,
            rare=self._rare[pool],
        )

    def _health(self, member: Member) -> float:
        fresh = member.presence is Presence.FRESH
        return member.vigour if fresh else member.health(self.now)

    def _alike(
        self, job: Waiting, pool: Pool, fit: Fit, named: Named, depth: int
    ) -> Iterator[Candidate]:
        appraisal = self._appraise(job, pool, fit)
        wishes: dict[int, float] = {}
        picky = bool(job.exclusions) or self._only is not None
        for room, ranks in pool.open.items():
            choice = choose_engine(fit, room, self.fleet)
            if choice is None:
                continue
            wish = wishes.get(choice.index)
            if wish is None:
                wish = wishes[choice.index] = appraisal.affinity(choice, "")
            left = depth
            for _, factory_id, member in ranks:
                if factory_id in named or (picky and not self._asked(job, factory_id)):
                    continue
                score = appraisal.score(wish, room.load, member.vigour)
                yield Candidate.of(score, job, member, choice)
                left -= 1
                if not left:
                    break

    def _asked(self, job: Waiting, factory_id: str) -> bool:
        if self._only is not None and factory_id not in self._only:
            return False
        return not (job.exclusions and excluded(job, factory_id, self.now))

    def _singly(self, job: Waiting, factory_ids: Named) -> list[Candidate]:
        found = []
        for factory_id in factory_ids:
            member = self.fleet.member(factory_id)
            if member is None or not self._asked(job, factory_id):
                continue
            fit = self.fleet.fit(job.job_class, member.pool)
            if isinstance(fit, Fit) and (choice := self._choice(member, fit)) is not None:
                found.append(self.scored(job, member, fit, choice))
        return found

    def _choice(self, member: Member, fit: Fit) -> EngineChoice | None:
        if member.presence not in PRESENT or member.room.load >= 1.0:
            return None
        return choose_engine(fit, member.room, self.fleet)

    def _unpinned(self, job: Waiting, pool: Pool) -> dict[str, int]:
        """Count where the job requires one factory by name: all others lack that name."""
        found = {"capability": 0}
        for factory_id, member in pool.members.items():
            if not job.job_class.allows(factory_id):
                found["capability"] += 1
            else:
                why = rejection(self.fleet, member, job.job_class, job, self.now)
                found |= {why.code: 1} if why is not None else {}
        return found

    def _passing(self, job: Waiting, pool: Pool, fit: Fit) -> dict[str, int]:
        """Count by the reasons that pass: silence, illness, no seat, exclusion, no way to ask."""
        rooms = [
            ranks
            for room, ranks in pool.open.items()
            if choose_engine(fit, room, self.fleet) is not None
        ]
        members, away, sick = pool.members, pool.odd[Presence.AWAY], pool.odd[Presence.SICK]
        fading = [
            name
            for name in pool.odd[Presence.FADING]
            if self._choice(members[name], fit) is not None
        ]
        free = sum(map(len, rooms)) + len(fading)
        found = {
            "offline": len(away),
            "unhealthy": len(sick),
            "busy": len(members) - len(away) - len(sick) - free,
        }
        if job.exclusions or not (self._only is None or members.keys() <= self._only):
            names = {factory_id for ranks in rooms for _, factory_id, _ in ranks}
            found |= self._not_asked(job, names.union(fading))
        return found

    def _not_asked(self, job: Waiting, free: set[str]) -> dict[str, int]:
        """Count those with room that are not to be asked, or cannot be reached."""
        out = {e.factory_id for e in job.exclusions if e.until > self.now}
        unreachable = 0 if self._only is None else len(free - out - self._only)
        return {"excluded": len(free & out), "unreachable": unreachable}
