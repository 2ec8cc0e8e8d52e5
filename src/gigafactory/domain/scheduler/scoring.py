"""Filter and score: whether a factory may run a job, and how good the pair is."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from gigafactory.domain.fleet.factory import HEALTH_FLOOR
from gigafactory.domain.fleet.fleet_state import FleetState, Rarities
from gigafactory.domain.fleet.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.fleet.pool import Member, Occupancy, Presence
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob
from gigafactory.domain.queue.ready_queue import is_excluded
from gigafactory.domain.tenancy.product import Weights

STARVING_AFTER_S = 30 * 60.0
COST_CLASS_MAX = 3
TIGHT_NANO_USD = 1_000_000_000
AMPLE_NANO_USD = 10_000_000_000
TIGHTNESS_UNKNOWN = 0.5
"""The weight of cost without a budget: a cheap seat is still preferred."""


class ScoreTerm(msgspec.Struct, frozen=True):
    """One term of a score; the score is the sum of value times weight."""

    value: float
    weight: float


class Score(msgspec.Struct, frozen=True):
    """A score with its breakdown."""

    total: float
    terms: dict[str, ScoreTerm]


class JobPoolScorer:
    """Scores a job on the factories of a pool; terms equal for all of them are computed once."""

    __slots__ = ("_fit", "_fixed", "_shared", "job", "weights")

    def __init__(
        self,
        job: QueuedJob,
        fit: Fit,
        weights: Weights,
        *,
        cost: float,
        waited_s: float,
        rare: Rarities,
    ) -> None:
        self.job = job
        self.weights = weights
        self._fit = fit
        shared = (fit.capability, cost, starvation(waited_s), scarcity(job.job_class, rare))
        self._shared = shared
        self._fixed = (
            weights.capability_fit * shared[0]
            + weights.cost_fit * shared[1]
            - weights.starvation * shared[2]
            - weights.scarcity * shared[3]
        )

    def score(self, affinity: float, load: float, health: float, learned: float = 0.0) -> float:
        """Return the score on one factory, rounded so that ties are exact.

        `learned` is already weighted, as its weight depends on the job.
        """
        weights = self.weights
        return round(
            self._fixed
            + weights.affinity * affinity
            + weights.load * (1.0 / (1.0 + load))
            + weights.health * health
            + learned,
            6,
        )

    def affinity(self, choice: EngineChoice, factory_id: str) -> float:
        """Return the fraction of the job's preferences that are met there."""
        return affinity(self._fit, self.job, choice, factory_id)

    def breakdown(
        self, affinity: float, load: float, health: float, learned: ScoreTerm | None = None
    ) -> Score:
        """Return the score with each term and its weight; penalties have negative weights."""
        weights = self.weights
        capability, cost, starved, scarce = self._shared
        learned_term = learned or ScoreTerm(0.0, weights.learned)
        terms = {
            "capabilityFit": ScoreTerm(capability, weights.capability_fit),
            "affinity": ScoreTerm(affinity, weights.affinity),
            "load": ScoreTerm(1.0 / (1.0 + load), weights.load),
            "costFit": ScoreTerm(cost, weights.cost_fit),
            "health": ScoreTerm(health, weights.health),
            "starvation": ScoreTerm(starved, -weights.starvation),
            "scarcity": ScoreTerm(scarce, -weights.scarcity),
            "learned": learned_term,
        }
        rounded = {
            name: ScoreTerm(round(term.value, 4), term.weight) for name, term in terms.items()
        }
        total = self.score(affinity, load, health, learned_term.value * learned_term.weight)
        return Score(total, rounded)


def choose_engine(fit: Fit, room: Occupancy, fleet: FleetState) -> EngineChoice | None:
    """Return the most preferred engine with a free seat at this occupancy; None without one."""
    exhausted = fleet.seat_map.exhausted
    for choice in fit.engines:
        if choice.index < 0 or (room.free[choice.index] and choice.seats not in exhausted):
            return choice
    return None


def free_engines(fit: Fit, room: Occupancy, fleet: FleetState) -> Iterator[EngineChoice]:
    """Yield every engine with a free seat at this occupancy, the most preferred first."""
    for choice in fit.engines:
        if room.free[choice.index] and choice.seats not in fleet.seat_map.exhausted:
            yield choice


def affinity(fit: Fit, job: QueuedJob, choice: EngineChoice, factory_id: str) -> float:
    """Return the mean fulfilment of the job's preferences, from 0 to 1; 0 without any."""
    ask = job.job_class.ask
    preferences = met = 0.0
    if ask.prefers:
        preferences += 1.0
        met += (fit.prefers_met + (factory_id in job.job_class.preferred_factories)) / len(
            ask.prefers
        )
    if ask.repo is not None:
        preferences += 1.0
        met += fit.warm
    if ask.prefers_engine:
        preferences += 1.0
        met += choice.engine == ask.prefers_engine[0]
    if job.checkpoint is not None:
        preferences += 1.0
        met += job.checkpoint == factory_id
    return met / preferences if preferences else 0.0


def cost_fit(cost_class: int, budget_nano_usd: int | None, product_left: float | None) -> float:
    """Return how well a seat's cost fits, from 0 to 1: expensive seats fit tight budgets less."""
    if budget_nano_usd is None:
        tightness = TIGHTNESS_UNKNOWN
    else:
        spare = (budget_nano_usd - TIGHT_NANO_USD) / (AMPLE_NANO_USD - TIGHT_NANO_USD)
        tightness = 1.0 - min(1.0, max(0.0, spare))
    if product_left is not None:
        tightness = max(tightness, 1.0 - min(1.0, max(0.0, product_left)))
    expensive = min(1.0, max(0.0, cost_class / COST_CLASS_MAX))
    return 1.0 - expensive * tightness


def starvation(waited_s: float) -> float:
    """Return the starvation penalty: 1 for a new job, 0 after half an hour of waiting."""
    return 1.0 - min(1.0, max(0.0, waited_s / STARVING_AFTER_S))


def scarcity(job_class: JobClass, rare: Rarities) -> float:
    """Return the rarity, from 0 to 1, of demanded equipment that the job would block unused."""
    return max(
        (rarity for token, rarity in rare if token not in job_class.needed_tokens), default=0.0
    )


def find_rejection(
    fleet: FleetState, member: Member, job_class: JobClass, job: QueuedJob | None, now: datetime
) -> Rejection | None:
    """Return why a factory is no candidate for a job of a class; None when it is one.

    Permanent reasons come before temporary ones.
    """
    fit = fleet.fit(job_class, member.pool)
    if isinstance(fit, Rejection):
        return fit
    if not job_class.allows_factory(member.factory.id):
        return Rejection(
            "capability", "the job is for " + " and ".join(sorted(job_class.required_factories))
        )
    return _find_absence(member, now) or _no_room(fleet, member, fit, job, now)


def _find_absence(member: Member, now: datetime) -> Rejection | None:
    presence = member.presence_at(now)
    if presence is Presence.AWAY:
        since = f"since {member.vitals.last_seen:%Y-%m-%d %H:%M} UTC" if member.vitals else "so far"
        return Rejection("offline", f"it has sent no heartbeat {since}")
    if presence is Presence.SICK:
        health = member.health(now)
        return Rejection("unhealthy", f"its health is {health:.2f}, below {HEALTH_FLOOR}")
    return None


def _no_room(
    fleet: FleetState, member: Member, fit: Fit, job: QueuedJob | None, now: datetime
) -> Rejection | None:
    factory_id = member.factory.id
    if all(fleet.free_seats(factory_id, choice.engine, now) < 1 for choice in fit.engines):
        return Rejection("busy", describe_busy(fleet, member, fit, now))
    if job is not None and is_excluded(job, factory_id, now):
        until = max(e.until for e in job.exclusions if e.factory_id == factory_id)
        return Rejection("excluded", f"it is excluded from this job until {until:%H:%M:%S} UTC")
    return None


def describe_busy(fleet: FleetState, member: Member, fit: Fit, now: datetime) -> str:
    """Return which slots or seats of the factory or the fleet are used up."""
    factory, seat_map = member.factory, fleet.seat_map
    if seat_map.slots_taken(factory.id) >= factory.slots:
        return f"every slot is taken: {seat_map.slots_taken(factory.id)} of {factory.slots}"
    reasons = []
    for choice in fit.engines:
        name = choice.seats or ""
        engine = factory.engines[name]
        if engine.unavailable is not None:
            reasons.append(f"{name} is unavailable: {engine.unavailable}")
        elif not engine.is_ready(now):
            reasons.append(f"{name} cools down until {engine.cooling_until:%Y-%m-%d %H:%M:%S} UTC")
        elif seat_map.seats_taken(factory.id, name) >= engine.seats:
            taken = seat_map.seats_taken(factory.id, name)
            reasons.append(f"every {name} seat is busy: {taken} of {engine.seats}")
        else:
            limit = seat_map.fleet_seats[name]
            reasons.append(f"every {name} seat of the fleet is busy: {limit} of {limit}")
    return "; ".join(reasons)
