"""The routing predictor: the model and the rollouts, cached for fast use by the scheduler."""

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
"""Weight of the learned term when it decides and the product sets no weight."""
SUCCESS, TIME, COST = 0.6, 0.2, 0.2
"""Parts of success, duration and cost in the value of a choice."""
KEPT_MAX = 50_000
VALUES_MAX = 256
"""Maximum cached values per kind of job."""


class TaskPredictions:
    """Predictions for jobs with equal features, computed once per engine."""

    __slots__ = ("_anywhere", "_model", "_usual_model", "requested_model", "task", "values")

    def __init__(
        self, model: RoutingModel, task: TaskFeatures, requested_model: str | None
    ) -> None:
        self.task = task
        self.requested_model = requested_model
        """The model that the jobs request."""
        self._model = model
        self._usual_model = model.task_baseline(task)
        self.values: dict[tuple[str, str], float] = {}
        """Cached values by engine and factory."""
        self._anywhere: dict[tuple[str, str | None], LogSums] = {}

    def value(self, engine: str, model: str | None, factory_sums: LogSums) -> float:
        """Return the value of an engine from 0 to 1, by expected success, duration and cost."""
        sums = self._anywhere.get((engine, model))
        if sums is None:
            sums = self._model.engine_sums(self.task, RoutingChoice(engine, None, model))
            self._anywhere[engine, model] = sums
        chance = logistic(sums.odds + factory_sums.odds)
        quick = logistic((self._usual_model.log_ms - sums.log_ms - factory_sums.log_ms) / 1000)
        saving = logistic(
            (self._usual_model.log_nanos - sums.log_nanos - factory_sums.log_nanos) / 1000
        )
        return round(SUCCESS * chance + TIME * quick + COST * saving, 6)

    def predict(self, choice: RoutingChoice) -> Prediction:
        """Return the prediction for a choice, with its evidence."""
        return self._model.predict(self.task, choice)


class Guidance(NamedTuple):
    """The rollout, side and predictions that apply to one job."""

    rollout: RoutingRollout
    side: RoutingSide
    predictions: TaskPredictions


class RoutingPredictor:
    """The current model and the rollouts of products; unused while all rollouts are off."""

    def __init__(self, *, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._routings: dict[str, RoutingRollout] = {}
        self._model = fit_model(())
        self._models: dict[tuple[str, str | None], str] = {}
        self._predictions: dict[tuple[JobClass, JobFeatures], TaskPredictions] = {}
        self._places: dict[tuple[str, str], LogSums] = {}

    @property
    def is_active(self) -> bool:
        """Whether any product has a rollout that is not off."""
        return any(each.mode is not RolloutMode.OFF for each in self._routings.values())

    def put(self, routing: RoutingRollout) -> None:
        """Update a product's rollout, unless a newer version is known."""
        current = self._routings.get(routing.product_id)
        if current is None or current.rev <= routing.rev:
            self._routings[routing.product_id] = routing

    def use_model(self, model: RoutingModel, cells: Iterable[tuple[Cell, Observation]]) -> None:
        """Replace the model, and clear the caches."""
        self._model = model
        tries: dict[tuple[str, str | None], dict[str, int]] = {}
        for cell, observation in cells:
            choice = cell.choice
            for place in ((choice.engine, None), (choice.engine, choice.factory)):
                if choice.model is not None:
                    counted = tries.setdefault(place, {})
                    counted[choice.model] = counted.get(choice.model, 0) + observation.tries
        self._models = {
            place: max(sorted(counted), key=counted.__getitem__) for place, counted in tries.items()
        }
        self._predictions.clear()
        self._places.clear()

    def guidance_for(self, job: QueuedJob) -> Guidance | None:
        """Return the guidance for a job; None when the rollout of its product is off."""
        job_class = job.job_class
        routing = self._routings.get(job_class.product_id)
        if routing is None or routing.mode is RolloutMode.OFF or job_class.step is not Step.RUN:
            return None
        return Guidance(
            routing, routing.side(job.job_id), self._predictions_of(job_class, job.trait)
        )

    def value(self, guidance: Guidance, engine: str, factory_id: str) -> float:
        """Return the value, from 0 to 1, of this engine on this factory for a job."""
        predictions, place = guidance.predictions, (engine, factory_id)
        value = predictions.values.get(place)
        if value is None:
            if len(predictions.values) >= VALUES_MAX:
                predictions.values.clear()
            value = predictions.value(
                engine, self._usual_model(guidance, *place), self._place_sums(place)
            )
            predictions.values[place] = value
        return value

    def _place_sums(self, place: tuple[str, str]) -> LogSums:
        sums = self._places.get(place)
        if sums is None:
            if len(self._places) >= self._kept_max:
                self._places.clear()
            sums = self._places[place] = self._model.factory_sums(*place)
        return sums

    def choice(self, guidance: Guidance, engine: str, factory_id: str) -> RoutingChoice:
        """Return the choice with the requested model, or the most used one there."""
        return RoutingChoice(engine, factory_id, self._usual_model(guidance, engine, factory_id))

    def _usual_model(self, guidance: Guidance, engine: str, factory_id: str) -> str | None:
        models = self._models
        model = guidance.predictions.requested_model or models.get((engine, factory_id))
        return model or models.get((engine, None))

    def _predictions_of(self, job_class: JobClass, features: JobFeatures) -> TaskPredictions:
        cached = self._predictions.get((job_class, features))
        if cached is None:
            if len(self._predictions) >= self._kept_max:
                self._predictions.clear()
            ask = job_class.ask
            language = language_of(ask.needs)
            task = TaskFeatures(
                job_class.product_id, ask.repo, features.profile, language, features.size
            )
            cached = self._predictions[job_class, features] = TaskPredictions(
                self._model, task, features.model
            )
        return cached
