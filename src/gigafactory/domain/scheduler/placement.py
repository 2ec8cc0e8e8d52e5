"""Placement: orders jobs, scores candidates and builds the decision, for one point in time."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.fleet.pool import Member, Pool, Presence
from gigafactory.domain.insights.routing_predictor import DEFAULT_WEIGHT, Guidance
from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.insights.routing_rollout import RoutingSide
from gigafactory.domain.queue.queued_job import QueuedJob
from gigafactory.domain.queue.ready_queue import ReadyQueue, is_excluded
from gigafactory.domain.scheduler.candidate import Candidate
from gigafactory.domain.scheduler.decision import RUNNERS_UP_MAX, Decision, Pick, RunnerUp
from gigafactory.domain.scheduler.fair_share import FairShare, fair_shares
from gigafactory.domain.scheduler.learned_choice import ChoiceOption, LearnedChoice, choose_learned
from gigafactory.domain.scheduler.rejections import count_rejections, free_engine_choice
from gigafactory.domain.scheduler.scoring import (
    JobPoolScorer,
    ScoreTerm,
    affinity,
    choose_engine,
    cost_fit,
    free_engines,
)
from gigafactory.domain.tenancy.product import Weights

AGEING_STEP_S = 3600.0
PATIENCE_S = 24 * 3600.0
CANDIDATES_PER_POOL = 8
"""Equally occupied factories of a pool that get a learned score: the healthiest so many."""

Order = tuple[int, bool, bool, float, int]
Named = AbstractSet[str]


class Alternatives(NamedTuple):
    """The runners-up of a job, and the number of rejected factories by reason."""

    runners_up: tuple[RunnerUp, ...]
    rejections: dict[str, int]


class Placement:
    """Orders queued jobs, scores candidates and explains the pick, for one decision."""

    def __init__(
        self, queue: ReadyQueue, fleet: FleetState, now: datetime, only: Named | None = None
    ) -> None:
        queue.advance(now)
        fleet.advance(now)
        self.fleet = fleet
        self.now = now
        self.considered = 0
        self._at = now.timestamp()
        self._only = only
        self._rare = fleet.rarities(queue.demanded_tokens)
        self._scarcity = fleet.scarcity(queue.waiting_classes)
        self._urgency = queue.urgency
        self._fair_shares: dict[str, FairShare] = {}
        self._weights: dict[str, Weights] = {}
        self._scorers: dict[tuple[str, Pool], JobPoolScorer] = {}
        self._alternatives: dict[object, Alternatives] = {}
        self._guidance: dict[str, Guidance | None] = {}
        self._learned_choices: dict[str, LearnedChoice] = {}
        self._open = [pool for pool in fleet.pools() if self._is_open(pool)]

    @property
    def has_no_free_slot(self) -> bool:
        """Whether no reachable factory has a free slot."""
        return not self._open

    def order(self, job: QueuedJob) -> Order | None:
        """Return the sort key of a job before its score: aged rank, promotion, scarcity, share.

        Ageing raises a job at most to the first rank. Jobs of a product above its share age at
        most to the rank of its most urgent one, or the deepest backlog would be served first
        whatever the shares; after a day of waiting they age freely.
        None for a product that is stopped or cannot afford the run.
        """
        kind = job.job_class
        fair_share = self._fair_share(kind.product_id)
        if (
            fair_share.projected_usage is None
            or self.fleet.budget_refusal(kind, self.now) is not None
        ):
            return None
        waited = max(0.0, self._at - job.waiting_since)
        rank = kind.rank - int(waited // AGEING_STEP_S)
        best = fair_share.rank_limit if waited < PATIENCE_S else 0
        yields = self._scarcity.should_yield(kind)
        return (max(best, rank), not job.front, yields, fair_share.projected_usage, rank)

    def score(self, job: QueuedJob, member: Member, fit: Fit, choice: EngineChoice) -> Candidate:
        """Return the candidate of a job on one factory with one engine."""
        learned = self._learned(job, choice, member.factory.id)
        return self._scored(job, member, fit, choice, learned.value * learned.weight)

    def _scored(
        self, job: QueuedJob, member: Member, fit: Fit, choice: EngineChoice, learned: float = 0.0
    ) -> Candidate:
        scorer = self._scorer(job, member.pool, fit)
        affinity_value = scorer.affinity(choice, member.factory.id)
        score = scorer.score(affinity_value, member.occupancy.load, self._health(member), learned)
        return Candidate.of(score, job, member, choice)

    def guidance(self, job: QueuedJob) -> Guidance | None:
        """Return the learned-routing guidance for a job; None when its rollout is off."""
        if job.job_id not in self._guidance:
            self._guidance[job.job_id] = self.fleet.predictor.guidance_for(job)
        return self._guidance[job.job_id]

    def best_candidate(self, job: QueuedJob) -> Candidate | None:
        """Return the best candidate for a job over all factories; None without any."""
        guidance = self.guidance(job)
        if guidance is None or guidance.side is not RoutingSide.LEARNED:
            return min(self.candidates(job, 1), default=None)
        return min(map(self._rescore, self.candidates(job, CANDIDATES_PER_POOL)), default=None)

    def _rescore(self, able: Candidate) -> Candidate:
        """Return the candidate with the best engine by learned score, scored with it."""
        job, member = able.job, able.member
        choice = self.choose_engine(job, member, able.choice)
        return self.score(job, member, self._fit(job, member), choice)

    def choose_engine(self, job: QueuedJob, member: Member, usual: EngineChoice) -> EngineChoice:
        """Return the engine for a job on a factory: the usual one, or the best by learned score."""
        guidance = self.guidance(job)
        if guidance is None or guidance.side is not RoutingSide.LEARNED:
            return usual
        fit, factory_id, weights = self._fit(job, member), member.factory.id, self._weights_of(job)
        weight = weights.learned or DEFAULT_WEIGHT

        def worth(choice: EngineChoice) -> float:
            affinity_value = weights.affinity * affinity(fit, job, choice, factory_id)
            return round(affinity_value + weight * self._value(guidance, choice, factory_id), 6)

        # max() returns the first of equals, which is the one the job prefers.
        return max(free_engines(fit, member.occupancy, self.fleet), key=worth)

    def _value(self, guidance: Guidance, choice: EngineChoice, factory_id: str) -> float:
        assert choice.engine is not None, "a run has an engine"
        return self.fleet.predictor.value(guidance, choice.engine, factory_id)

    def _final_choice(self, best: Candidate, mode: Literal["pull", "push"]) -> Candidate:
        """Return the final choice for the picked job, and keep its routing record."""
        guidance = self.guidance(best.job)
        if guidance is None:
            return best
        options = self._options(best.job, guidance, best.member if mode == "pull" else None)
        learned = self._learned_choices[best.job.job_id] = choose_learned(
            self.fleet.predictor, guidance, options
        )
        return learned.chosen

    def _options(self, job: QueuedJob, guidance: Guidance, on: Member | None) -> list[ChoiceOption]:
        """Return every engine on every factory that the job could use, with both scores."""
        options = []
        weight = self._weights_of(job).learned or DEFAULT_WEIGHT
        members = (
            [c.member for c in self.candidates(job, CANDIDATES_PER_POOL)] if on is None else [on]
        )
        for member in members:
            fit = self._fit(job, member)
            for place, choice in enumerate(free_engines(fit, member.occupancy, self.fleet)):
                usual = self._scored(job, member, fit, choice)
                value = self._value(guidance, choice, member.factory.id)
                options.append(ChoiceOption(usual, place, round(usual.score + weight * value, 6)))
        return options

    def _fit(self, job: QueuedJob, member: Member) -> Fit:
        fit = self.fleet.fit(job.job_class, member.pool)
        assert isinstance(fit, Fit), "a candidate fits"
        return fit

    def _learned(self, job: QueuedJob, choice: EngineChoice, factory_id: str) -> ScoreTerm:
        """Return the learned term of a score; its weight is 0 unless learned routing decides."""
        guidance, weight = self.guidance(job), self._weights_of(job).learned
        if guidance is None or choice.engine is None:
            return ScoreTerm(0.0, weight)
        value = self._value(guidance, choice, factory_id)
        return ScoreTerm(
            value, (weight or DEFAULT_WEIGHT) if guidance.side is RoutingSide.LEARNED else 0.0
        )

    def candidates(self, job: QueuedJob, depth: int) -> list[Candidate]:
        """Return the candidates of a job: of equivalent factories, only the best `depth`.

        Factories of one pool with equal occupancy are equivalent, unless the job names one.
        """
        required, named = job.job_class.required_factories, job.job_class.preferred_factories
        if required:
            return self._score_each(job, required if len(required) == 1 else frozenset())
        if job.checkpoint is not None:
            named |= {job.checkpoint}
        scored = self._score_each(job, named)
        for pool in self._open:
            fit = self.fleet.fit(job.job_class, pool)
            if not isinstance(fit, Rejection):
                scored += self._score_pool(job, pool, fit, named, depth)
                scored += self._score_each(job, pool.odd[Presence.FADING] - named)
        return scored

    def pick(
        self, best: Candidate, mode: Literal["pull", "push"], *, offered: bool = False
    ) -> Pick | None:
        """Return the pick for the best candidate; None when its seats are taken after all.

        An offered job keeps the choice made when it was offered.
        """
        if not offered:
            best = self._final_choice(best, mode)
        factory_id, engine = best.member.factory.id, best.choice.engine
        seats = self.fleet.seat_keys(factory_id, engine)
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

    def _decision(self, best: Candidate, mode: Literal["pull", "push"]) -> Decision:
        job, member, choice = best.job, best.member, best.choice
        fit = self._fit(job, member)
        scorer = self._scorer(job, member.pool, fit)
        affinity_value = scorer.affinity(choice, member.factory.id)
        learned = self._learned(job, choice, member.factory.id)
        score = scorer.breakdown(
            affinity_value, member.occupancy.load, self._health(member), learned
        )
        others = self._find_alternatives(job, member, mode)
        propensity, routing = self._routing(job)
        return Decision(
            mode=mode,
            score=score.total,
            matched=fit.matched,
            terms=score.terms,
            runners_up=others.runners_up,
            rejections=others.rejections,
            considered=self.considered,
            propensity=propensity,
            routing=routing if routing is not None else msgspec.UNSET,
        )

    def _routing(self, job: QueuedJob) -> tuple[float, RoutingRecord | None]:
        """Return the probability of the choice and its routing record.

        For an offered job, both are those of the offer.
        """
        learned = self._learned_choices.get(job.job_id)
        if learned is not None:
            return learned.propensity, learned.routing
        if job.offer is None or (record := job.offer.decision.get("routing")) is None:
            return 1.0, None
        return job.offer.decision["propensity"], msgspec.convert(record, RoutingRecord)

    def _find_alternatives(
        self, job: QueuedJob, member: Member, mode: Literal["pull", "push"]
    ) -> Alternatives:
        """Return the runners-up and the rejections of a job.

        When one factory claims several equivalent jobs, they are computed for the first only: in
        between only that factory's occupancy changes, and it is not among the others.
        """
        is_shared = mode == "pull" and not job.exclusions and job.checkpoint is None
        guidance = self.guidance(job)
        by_learned = guidance is not None and guidance.side is RoutingSide.LEARNED
        kind = (job.job_class, job.trait, by_learned)
        cached = self._alternatives.get(kind) if is_shared else None
        if cached is not None:
            return cached
        able = [c for c in self.candidates(job, RUNNERS_UP_MAX + 1) if c.member is not member]
        if by_learned:
            able = [self._rescore(c) for c in able]
        best = sorted(able)[:RUNNERS_UP_MAX]
        runners_up = tuple(RunnerUp(c.factory_id, c.choice.engine, c.score) for c in best)
        alternatives = Alternatives(
            runners_up, count_rejections(self.fleet, job, self.now, self._only)
        )
        if is_shared:
            self._alternatives[kind] = alternatives
        return alternatives

    def _is_open(self, pool: Pool) -> bool:
        some = bool(pool.open or pool.odd[Presence.FADING])
        return some and (self._only is None or not pool.members.keys().isdisjoint(self._only))

    def _fair_share(self, product_id: str) -> FairShare:
        if not self._fair_shares:
            self._fair_shares = fair_shares(self.fleet, self._urgency, self.now)
        return self._fair_shares[product_id]

    def _scorer(self, job: QueuedJob, pool: Pool, fit: Fit) -> JobPoolScorer:
        cached = self._scorers.get((job.job_id, pool))
        if cached is None:
            cached = self._scorers[job.job_id, pool] = self._new_scorer(job, pool, fit)
        return cached

    def _new_scorer(self, job: QueuedJob, pool: Pool, fit: Fit) -> JobPoolScorer:
        product_id, ask = job.job_class.product_id, job.job_class.ask
        weights = self._weights_of(job)
        left = self.fleet.budget_left.get(product_id)
        return JobPoolScorer(
            job,
            fit,
            weights,
            cost=cost_fit(pool.traits.cost_class, ask.budget_nano_usd, left),
            waited_s=self._at - job.waiting_since,
            rare=self._rare[pool],
        )

    def _weights_of(self, job: QueuedJob) -> Weights:
        product_id = job.job_class.product_id
        weights = self._weights.get(product_id)
        if weights is None:
            weights = self._weights[product_id] = self.fleet.product(product_id).weights
        return weights

    def _health(self, member: Member) -> float:
        fresh = member.presence is Presence.FRESH
        return member.fresh_health if fresh else member.health(self.now)

    def _score_pool(
        self, job: QueuedJob, pool: Pool, fit: Fit, named: Named, depth: int
    ) -> Iterator[Candidate]:
        scorer = self._scorer(job, pool, fit)
        affinities: dict[int, float] = {}
        restricted = bool(job.exclusions) or self._only is not None
        for room, ranks in pool.open.items():
            choice = choose_engine(fit, room, self.fleet)
            if choice is None:
                continue
            preference = affinities.get(choice.index)
            if preference is None:
                preference = affinities[choice.index] = scorer.affinity(choice, "")
            left = depth
            for _, factory_id, member in ranks:
                if factory_id in named or (restricted and not self._may_ask(job, factory_id)):
                    continue
                score = scorer.score(preference, room.load, member.fresh_health)
                yield Candidate.of(score, job, member, choice)
                left -= 1
                if not left:
                    break

    def _may_ask(self, job: QueuedJob, factory_id: str) -> bool:
        if self._only is not None and factory_id not in self._only:
            return False
        return not (job.exclusions and is_excluded(job, factory_id, self.now))

    def _score_each(self, job: QueuedJob, factory_ids: Named) -> list[Candidate]:
        scored = []
        for factory_id in factory_ids:
            member = self.fleet.member(factory_id)
            if member is None or not self._may_ask(job, factory_id):
                continue
            fit = self.fleet.fit(job.job_class, member.pool)
            if (
                isinstance(fit, Fit)
                and (choice := free_engine_choice(member, fit, self.fleet)) is not None
            ):
                scored.append(self._scored(job, member, fit, choice))
        return scored
