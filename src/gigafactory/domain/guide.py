"""The guide: what the scheduler knows of lessons and rollouts, kept so that a look is quick."""

from collections.abc import Iterable

import msgspec

from gigafactory.domain.job import Step
from gigafactory.domain.learned import Model, Prediction, fit
from gigafactory.domain.lesson import Cell, Choice, Lesson, Task
from gigafactory.domain.matching import EngineChoice
from gigafactory.domain.routing import Mode, Routing, Side
from gigafactory.domain.trait import Trait, language_of
from gigafactory.domain.waiting import JobClass, Waiting

USUAL_WEIGHT = 2.0
"""What the learned term counts for where it decides and the product has given it no weight."""
SUCCESS, TIME, COST = 0.6, 0.2, 0.2
"""How much of the term's value is the chance of success, how much quickness and thrift."""
KEPT_MAX = 50_000


class Outlook(msgspec.Struct, frozen=True):
    """What is expected of a choice, and its worth from 0 to 1."""

    prediction: Prediction
    value: float


class Guidance(msgspec.Struct, frozen=True):
    """How one job is routed."""

    routing: Routing
    side: Side
    explores: bool
    task: Task
    model: str | None
    """The model that the job asks for."""


class Guide:
    """Lessons and rollouts; without a rollout nothing is guided, and nothing is asked of this."""

    def __init__(self, *, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._routings: dict[str, Routing] = {}
        self._model = fit(())
        self._models: dict[tuple[str, str | None], str] = {}
        self._tasks: dict[tuple[JobClass, Trait], Task] = {}
        self._engines: dict[object, EngineChoice] = {}
        self._outlooks: dict[tuple[Task, Choice], Outlook] = {}

    @property
    def active(self) -> bool:
        """Whether any product wants to know what was learned."""
        return any(each.mode is not Mode.OFF for each in self._routings.values())

    def put(self, routing: Routing) -> None:
        """Know this version of a product's rollout, unless a newer one is known."""
        known = self._routings.get(routing.product_id)
        if known is None or known.rev <= routing.rev:
            self._routings[routing.product_id] = routing

    def learn(self, model: Model, cells: Iterable[tuple[Cell, Lesson]]) -> None:
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
        self._tasks.clear()
        self._outlooks.clear()
        self._engines.clear()

    def of(self, job: Waiting) -> Guidance | None:
        """How a job is routed; None where what was learned has no say, not even in shadow."""
        kind = job.job_class
        routing = self._routings.get(kind.product_id)
        if routing is None or routing.mode is Mode.OFF or kind.step is not Step.RUN:
            return None
        side = routing.side(job.job_id)
        explores = routing.explores(job.job_id)
        return Guidance(routing, side, explores, self._task(kind, job.trait), job.trait.model)

    def outlook(self, guidance: Guidance, engine: str, factory_id: str) -> Outlook:
        """What is expected of a job with this engine on this factory."""
        model = guidance.model or self._models.get((engine, factory_id))
        choice = Choice(engine, factory_id, model or self._models.get((engine, None)))
        known = self._outlooks.get((guidance.task, choice))
        if known is None:
            if len(self._outlooks) >= self._kept_max:
                self._outlooks.clear()
            known = self._work_out(guidance.task, choice)
            self._outlooks[guidance.task, choice] = known
        return known

    def engine(self, kind: object) -> EngineChoice | None:
        """The best engine for jobs that are alike, if that was worked out before."""
        return self._engines.get(kind)

    def remember(self, kind: object, choice: EngineChoice) -> None:
        """Keep the best engine for jobs that are alike, until more is learned."""
        if len(self._engines) >= self._kept_max:
            self._engines.clear()
        self._engines[kind] = choice

    def forget_engines(self) -> None:
        """Work out anew which engines are best: a product weighs things otherwise now."""
        self._engines.clear()

    def _task(self, kind: JobClass, trait: Trait) -> Task:
        task = self._tasks.get((kind, trait))
        if task is None:
            if len(self._tasks) >= self._kept_max:
                self._tasks.clear()
            ask = kind.ask
            language = language_of(ask.needs)
            task = Task(kind.product_id, ask.repo, trait.profile, language, trait.size)
            self._tasks[kind, trait] = task
        return task

    def _work_out(self, task: Task, choice: Choice) -> Outlook:
        found, usual = self._model.predict(task, choice), self._model.usual(task)
        quick = 1.0 / (1.0 + found.seconds / usual.seconds)
        thrifty = 1.0 / (1.0 + found.cost_nano_usd / usual.cost_nano_usd)
        value = SUCCESS * found.success + TIME * quick + COST * thrifty
        return Outlook(found, round(value, 6))
