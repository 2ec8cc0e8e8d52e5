"""What lessons let one expect of a job with an engine on a factory: chance, time and cost.

An additive model: the odds of a first-pass success (and the logarithms of time and cost) are those
of all jobs, plus what is particular to each of a chain of groups that a try belongs to, from the
wide to the narrow. Each part is shrunken: a group of few tries stays close to what is expected of
it without knowing it. Parts are worked out in turn, a fixed number of times, from counts alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures

SWEEPS = 3
"""How often each part is worked out with what is known of the others."""
PRIOR_TRIES = 4.0
PRIOR_SHARE = 0.6
PRIOR_LOG_MS = 1000 * math.log(10 * 60 * 1000)
PRIOR_LOG_NANOS = 1000 * math.log(500_000_000)
"""What is expected where nothing is known: so many tries are needed to change one's mind."""

Group = tuple[str, ...] | None


class Effect(NamedTuple):
    """One link of the chain: which group a try belongs to, and how slow one is to believe in it."""

    name: str
    group: Callable[[TaskFeatures, RoutingChoice], Group]
    """None where the try belongs to none."""
    tries: float
    """A group of so many tries is believed half way, on success."""
    timed: float
    """The same, on time and cost."""


def _some(*parts: str | None) -> Group:
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def _agent(choice: RoutingChoice) -> tuple[str, str]:
    return choice.engine, choice.model or ""


EFFECTS: tuple[Effect, ...] = (
    Effect("product", lambda t, _: (t.product,), 60.0, 10.0),
    Effect("profile", lambda t, _: _some(t.profile), 60.0, 10.0),
    Effect("language", lambda t, _: _some(t.language), 120.0, 20.0),
    Effect("size", lambda t, _: _some(t.size), 120.0, 20.0),
    Effect("repo", lambda t, _: _some(t.product, t.repo), 60.0, 10.0),
    Effect("repo and profile", lambda t, _: _some(t.product, t.repo, t.profile), 60.0, 10.0),
    Effect("engine", lambda _, c: (c.engine,), 20.0, 5.0),
    Effect("model", lambda _, c: _some(c.engine, c.model), 20.0, 5.0),
    Effect("engine for the profile", lambda t, c: _some(*_agent(c), t.profile), 80.0, 10.0),
    Effect("engine in the repo", lambda t, c: _some(*_agent(c), t.product, t.repo), 160.0, 20.0),
    Effect("engine for the size", lambda t, c: _some(*_agent(c), t.size), 240.0, 20.0),
    Effect("factory", lambda _, c: _some(c.factory), 80.0, 10.0),
    Effect("engine on the factory", lambda _, c: _some(c.factory, c.engine), 80.0, 20.0),
)
"""From the wide to the narrow: first what the job is like, then what it is tried with."""
OF_TASKS = 6
"""So many of them, the first, are of the job alone, whatever it is tried with."""
OF_FACTORIES = 2
"""So many, the last, are of the factory, whatever the job is."""


class GroupEffect(msgspec.Struct, frozen=True):
    """What is particular to a group, and how many tries say so."""

    odds: float = 0.0
    log_ms: float = 0.0
    log_nanos: float = 0.0
    tries: int = 0


NO_EFFECT = GroupEffect()


class Evidence(NamedTuple):
    """One link of a prediction: a group, and the tries that it stands on."""

    name: str
    group: tuple[str, ...]
    part: GroupEffect


class Prediction(NamedTuple):
    """What one may expect of a first try."""

    success: float
    seconds: float
    cost_nano_usd: float
    evidence: tuple[Evidence, ...]

    @property
    def evidence_text(self) -> str:
        """In words, what it stands on: the tries of each group that there are any of."""
        known = [f"{e.name} {e.group[-1]} {e.part.tries}" for e in self.evidence if e.part.tries]
        return "first tries: " + (", ".join(known) if known else "none")


class LogSums(NamedTuple):
    """Odds and logarithms, as they are added up."""

    odds: float
    log_ms: float
    log_nanos: float


class RoutingModel(msgspec.Struct, frozen=True):
    """All parts; the same lessons make the same model, in whatever order they came."""

    base: GroupEffect
    parts: tuple[dict[tuple[str, ...], GroupEffect], ...]

    def predict(self, task: TaskFeatures, choice: RoutingChoice) -> Prediction:
        """What to expect; where nothing is known, what is true of all jobs."""
        evidence = tuple(self._links(task, choice, 0, len(EFFECTS)))
        odds, log_ms, log_nanos = _summed(self.base, evidence)
        return Prediction(
            logistic(odds), seconds_from_log_ms(log_ms), math.exp(log_nanos / 1000), evidence
        )

    def task_baseline(self, task: TaskFeatures) -> LogSums:
        """What to expect of a job, whatever it is tried with."""
        return _summed(self.base, self._links(task, _ANY, 0, OF_TASKS))

    def engine_sums(self, task: TaskFeatures, choice: RoutingChoice) -> LogSums:
        """What to expect of a job with an engine, wherever that is."""
        return _summed(self.base, self._links(task, choice, 0, len(EFFECTS) - OF_FACTORIES))

    def factory_sums(self, engine: str, factory: str) -> LogSums:
        """What is particular to a factory, and to an engine there."""
        places = len(EFFECTS) - OF_FACTORIES
        links = self._links(_NOTHING, RoutingChoice(engine, factory), places, len(EFFECTS))
        return _summed(NO_EFFECT, links)

    def _links(
        self, task: TaskFeatures, choice: RoutingChoice, first: int, end: int
    ) -> Iterator[Evidence]:
        for effect, known in zip(EFFECTS[first:end], self.parts[first:end], strict=True):
            group = effect.group(task, choice)
            if group is not None:
                yield Evidence(effect.name, group, known.get(group, NO_EFFECT))


def _summed(base: GroupEffect, links: Iterable[Evidence]) -> LogSums:
    odds, log_ms, log_nanos = base.odds, base.log_ms, base.log_nanos
    for link in links:
        odds += link.part.odds
        log_ms += link.part.log_ms
        log_nanos += link.part.log_nanos
    return LogSums(odds, log_ms, log_nanos)


_NOTHING = TaskFeatures("")
_ANY = RoutingChoice("")


def fit_model(known: Iterable[tuple[Cell, Observation]]) -> RoutingModel:
    """The model of these lessons, at once."""
    *_, model = fit_in_steps(known)
    assert model is not None, "fitting ends with a model"
    return model


def fit_in_steps(known: Iterable[tuple[Cell, Observation]]) -> Iterator[RoutingModel | None]:
    """The model of these lessons, last; None after each small piece of the work."""
    taught = _sorted(known)
    lessons = [lesson for _, lesson in taught]
    groups = [[effect.group(cell.task, cell.choice) for cell, _ in taught] for effect in EFFECTS]
    odds = _Odds(lessons)
    times = _Means([(x.tries, x.log_ms) for x in lessons], PRIOR_LOG_MS)
    costs = _Means([(x.priced, x.log_nanos) for x in lessons], PRIOR_LOG_NANOS)
    for _ in range(SWEEPS):
        for number, effect in enumerate(EFFECTS):
            odds.improve(number, groups[number], effect.tries)
            times.improve(number, groups[number], effect.timed)
            costs.improve(number, groups[number], effect.timed)
            yield None
    parts = []
    for number, _ in enumerate(EFFECTS):
        counted: dict[tuple[str, ...], int] = {}
        for group, lesson in zip(groups[number], lessons, strict=True):
            if group is not None:
                counted[group] = counted.get(group, 0) + lesson.tries
        parts.append(
            {
                group: GroupEffect(
                    odds.found[number].get(group, 0.0),
                    times.found[number].get(group, 0.0),
                    costs.found[number].get(group, 0.0),
                    tries,
                )
                for group, tries in counted.items()
            }
        )
    base = GroupEffect(odds.base, times.base, costs.base, sum(lesson.tries for lesson in lessons))
    yield RoutingModel(base, tuple(parts))


def _sorted(known: Iterable[tuple[Cell, Observation]]) -> list[tuple[Cell, Observation]]:
    # Sums of fractions depend on their order in the last digits: it must not be that of arrival.
    return sorted(known, key=lambda each: msgspec.json.encode(each[0]))


class _Odds:
    """The parts of the odds of a success."""

    def __init__(self, lessons: Sequence[Observation]) -> None:
        self._lessons = lessons
        passes = sum(lesson.passes for lesson in lessons) + PRIOR_TRIES * PRIOR_SHARE
        self.base = _logit(passes / (sum(lesson.tries for lesson in lessons) + PRIOR_TRIES))
        self._sums = [self.base] * len(lessons)
        self.found: list[dict[tuple[str, ...], float]] = [{} for _ in EFFECTS]

    def improve(self, number: int, groups: Sequence[Group], strength: float) -> None:
        """Work one part out anew: what came out well, against what the others let one expect."""
        part = self.found[number]
        seen: dict[tuple[str, ...], list[float]] = {}
        for at, group in enumerate(groups):
            if group is None:
                continue
            lesson = self._lessons[at]
            self._sums[at] -= part.get(group, 0.0)
            counts = seen.setdefault(group, [0.0, 0.0, 0.0])
            counts[0] += lesson.tries
            counts[1] += lesson.passes
            counts[2] += lesson.tries * logistic(self._sums[at])
        self.found[number] = {
            group: _shrunken(tries, passes, expected, strength)
            for group, (tries, passes, expected) in seen.items()
            if tries > 0
        }
        for at, group in enumerate(groups):
            if group is not None:
                self._sums[at] += self.found[number].get(group, 0.0)


class _Means:
    """The parts of the mean of a logarithm."""

    def __init__(self, sums: Sequence[tuple[int, int]], prior: float) -> None:
        self._lessons = sums
        total = sum(value for _, value in sums) + PRIOR_TRIES * prior
        self.base = total / (sum(count for count, _ in sums) + PRIOR_TRIES)
        self._sums = [self.base] * len(sums)
        self.found: list[dict[tuple[str, ...], float]] = [{} for _ in EFFECTS]

    def improve(self, number: int, groups: Sequence[Group], strength: float) -> None:
        """Work one part out anew: what is left of the sums without the other parts."""
        part = self.found[number]
        seen: dict[tuple[str, ...], list[float]] = {}
        for at, group in enumerate(groups):
            if group is None:
                continue
            count, value = self._lessons[at]
            self._sums[at] -= part.get(group, 0.0)
            counts = seen.setdefault(group, [0.0, 0.0])
            counts[0] += count
            counts[1] += value - count * self._sums[at]
        self.found[number] = {g: left / (n + strength) for g, (n, left) in seen.items() if n > 0}
        for at, group in enumerate(groups):
            if group is not None:
                self._sums[at] += self.found[number].get(group, 0.0)


def _shrunken(tries: float, passes: float, expected: float, strength: float) -> float:
    """How far the odds of a group are from what was expected of it, for all that is known."""
    usual = expected / tries
    share = (passes + strength * usual) / (tries + strength)
    return _logit(share) - _logit(usual)


def _logit(share: float) -> float:
    return math.log(share / (1.0 - share))


def logistic(odds: float) -> float:
    """The chance that odds, as a logarithm, stand for."""
    return 1.0 / (1.0 + math.exp(-odds))


def seconds_from_log_ms(log_ms: float) -> float:
    """The time behind a logarithm of thousandths."""
    return math.exp(log_ms / 1000) / 1000
