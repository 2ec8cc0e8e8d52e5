"""The guide: what the scheduler knows of lessons and rollouts, kept so that a look is quick."""

from collections.abc import Iterable
from typing import NamedTuple

from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures
from gigafactory.domain.insights.routing_model import (
    LogSums,
    Prediction,
    RoutingModel,
    fit_model,
    logistic,
)
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout, RoutingSide
from gigafactory.domain.job.features import JobFeatures, language_of
from gigafactory.domain.job.job import Step
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob

DEFAULT_WEIGHT = 2.0
"""What the learned term counts for where it decides and the product has given it no weight."""
SUCCESS, TIME, COST = 0.6, 0.2, 0.2
"""How much of the term's value is the chance of success, how much quickness and thrift."""
KEPT_MAX = 50_000
VALUES_MAX = 256
"""Of each kind of job; whoever asks again soon is answered at once."""


class TaskPredictions:
    """What is expected of jobs that are alike: worked out once for each engine."""

    __slots__ = ("_anywhere", "_model", "_usual", "requested_model", "task", "values")

    def __init__(self, model: RoutingModel, task: TaskFeatures, asked: str | None) -> None:
        self.task = task
        self.requested_model = asked
        """The model that the jobs ask for."""
        self._model = model
        self._usual = model.task_baseline(task)
        self.values: dict[tuple[str, str], float] = {}
        """The worth of engines on factories, as far as it was asked for lately."""
        self._anywhere: dict[tuple[str, str | None], LogSums] = {}

    def value(self, engine: str, model: str | None, there: LogSums) -> float:
        """The worth of an engine from 0 to 1: the chance of success, and how quick and cheap."""
        known = self._anywhere.get((engine, model))
        if known is None:
            known = self._model.engine_sums(self.task, RoutingChoice(engine, None, model))
            self._anywhere[engine, model] = known
        chance = logistic(known.odds + there.odds)
        quick = logistic((self._usual.log_ms - known.log_ms - there.log_ms) / 1000)
        thrifty = logistic((self._usual.log_nanos - known.log_nanos - there.log_nanos) / 1000)
        return round(SUCCESS * chance + TIME * quick + COST * thrifty, 6)

    def predict(self, choice: RoutingChoice) -> Prediction:
        """All that is expected of a choice, with what it stands on."""
        return self._model.predict(self.task, choice)


class Guidance(NamedTuple):
    """How one job is routed."""

    rollout: RoutingRollout
    side: RoutingSide
    predictions: TaskPredictions


class RoutingPredictor:
    """Lessons and rollouts; without a rollout nothing is guided, and nothing is asked of this."""

    def __init__(self, *, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._routings: dict[str, RoutingRollout] = {}
        self._model = fit_model(())
        self._models: dict[tuple[str, str | None], str] = {}
        self._prospects: dict[tuple[JobClass, JobFeatures], TaskPredictions] = {}
        self._places: dict[tuple[str, str], LogSums] = {}

    @property
    def is_active(self) -> bool:
        """Whether any product wants to know what was learned."""
        return any(each.mode is not RolloutMode.OFF for each in self._routings.values())

    def put(self, routing: RoutingRollout) -> None:
        """Know this version of a product's rollout, unless a newer one is known."""
        known = self._routings.get(routing.product_id)
        if known is None or known.rev <= routing.rev:
            self._routings[routing.product_id] = routing

    def use_model(self, model: RoutingModel, cells: Iterable[tuple[Cell, Observation]]) -> None:
        """Go by another model from now on."""
        self._model = model
        tries: dict[tuple[str, str | None], dict[str, int]] = {}
        for cell, lesson in cells:
            choice = cell.choice
            for place in ((choice.engine, None), (choice.engine, choice.factory)):
                if choice.model is not None:
                    counted = tries.setdefault(place, {})
                    counted[choice.model] = counted.get(choice.model, 0) + lesson.tries
        self._models = {
            place: max(sorted(counted), key=counted.__getitem__) for place, counted in tries.items()
        }
        self._prospects.clear()
        self._places.clear()

    def guidance_for(self, job: QueuedJob) -> Guidance | None:
        """How a job is routed; None where what was learned has no say, not even in shadow."""
        kind = job.job_class
        routing = self._routings.get(kind.product_id)
        if routing is None or routing.mode is RolloutMode.OFF or kind.step is not Step.RUN:
            return None
        return Guidance(routing, routing.side(job.job_id), self._of(kind, job.trait))

    def value(self, guidance: Guidance, engine: str, factory_id: str) -> float:
        """The worth, from 0 to 1, of this engine on this factory for a job."""
        prospects, place = guidance.predictions, (engine, factory_id)
        value = prospects.values.get(place)
        if value is None:
            if len(prospects.values) >= VALUES_MAX:
                prospects.values.clear()
            value = prospects.value(engine, self._usual(guidance, *place), self._there(place))
            prospects.values[place] = value
        return value

    def _there(self, place: tuple[str, str]) -> LogSums:
        there = self._places.get(place)
        if there is None:
            if len(self._places) >= self._kept_max:
                self._places.clear()
            there = self._places[place] = self._model.factory_sums(*place)
        return there

    def choice(self, guidance: Guidance, engine: str, factory_id: str) -> RoutingChoice:
        """The choice that this is, with the model that is asked for, or usual there."""
        return RoutingChoice(engine, factory_id, self._usual(guidance, engine, factory_id))

    def _usual(self, guidance: Guidance, engine: str, factory_id: str) -> str | None:
        models = self._models
        here = guidance.predictions.requested_model or models.get((engine, factory_id))
        return here or models.get((engine, None))

    def _of(self, kind: JobClass, trait: JobFeatures) -> TaskPredictions:
        known = self._prospects.get((kind, trait))
        if known is None:
            if len(self._prospects) >= self._kept_max:
                self._prospects.clear()
            ask = kind.ask
            language = language_of(ask.needs)
            task = TaskFeatures(kind.product_id, ask.repo, trait.profile, language, trait.size)
            known = self._prospects[kind, trait] = TaskPredictions(self._model, task, trait.model)
        return known
