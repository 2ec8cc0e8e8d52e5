"""Predict success, duration and cost of a job on an engine and factory.

An additive model: the log odds of first-pass success (and log duration and log cost) are those of
all jobs, plus the effects of the groups an attempt belongs to, from wide to narrow. Effects are
shrunk: a group with few attempts stays close to its expectation. They are fitted in turn, a fixed
number of times, from counts alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures

SWEEPS = 3
"""How often each effect is fitted given the others."""
PRIOR_TRIES = 4.0
PRIOR_SHARE = 0.6
PRIOR_LOG_MS = 1000 * math.log(10 * 60 * 1000)
PRIOR_LOG_NANOS = 1000 * math.log(500_000_000)
"""The prior for the overall level, worth `PRIOR_TRIES` attempts."""

Group = tuple[str, ...] | None


class Effect(NamedTuple):
    """One effect of the model: the group an attempt belongs to, and the strength of shrinkage."""

    name: str
    group: Callable[[TaskFeatures, RoutingChoice], Group]
    """Returns None when the attempt belongs to no group."""
    tries: float
    """Attempts at which the success effect is shrunk by half."""
    timed: float
    """The same for duration and cost."""


def _group_of(*parts: str | None) -> Group:
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def _agent(choice: RoutingChoice) -> tuple[str, str]:
    return choice.engine, choice.model or ""


EFFECTS: tuple[Effect, ...] = (
    Effect("product", lambda t, _: (t.product,), 60.0, 10.0),
    Effect("profile", lambda t, _: _group_of(t.profile), 60.0, 10.0),
    Effect("language", lambda t, _: _group_of(t.language), 120.0, 20.0),
    Effect("size", lambda t, _: _group_of(t.size), 120.0, 20.0),
    Effect("repo", lambda t, _: _group_of(t.product, t.repo), 60.0, 10.0),
    Effect("repo and profile", lambda t, _: _group_of(t.product, t.repo, t.profile), 60.0, 10.0),
    Effect("engine", lambda _, c: (c.engine,), 20.0, 5.0),
    Effect("model", lambda _, c: _group_of(c.engine, c.model), 20.0, 5.0),
    Effect("engine for the profile", lambda t, c: _group_of(*_agent(c), t.profile), 80.0, 10.0),
    Effect(
        "engine in the repo", lambda t, c: _group_of(*_agent(c), t.product, t.repo), 160.0, 20.0
    ),
    Effect("engine for the size", lambda t, c: _group_of(*_agent(c), t.size), 240.0, 20.0),
    Effect("factory", lambda _, c: _group_of(c.factory), 80.0, 10.0),
    Effect("engine on the factory", lambda _, c: _group_of(c.factory, c.engine), 80.0, 20.0),
)
"""From wide to narrow: first the features of the job, then the choice."""
OF_TASKS = 6
"""The number of leading effects that depend on the job alone."""
OF_FACTORIES = 2
"""The number of trailing effects that depend on the factory, not on the job."""


class GroupEffect(msgspec.Struct, frozen=True):
    """The fitted effect of one group, and its number of attempts."""

    odds: float = 0.0
    log_ms: float = 0.0
    log_nanos: float = 0.0
    tries: int = 0


NO_EFFECT = GroupEffect()


class Evidence(NamedTuple):
    """One effect used in a prediction, with its group."""

    name: str
    group: tuple[str, ...]
    part: GroupEffect


class Prediction(NamedTuple):
    """The expected success, duration and cost of a first attempt."""

    success: float
    seconds: float
    cost_nano_usd: float
    evidence: tuple[Evidence, ...]

    @property
    def evidence_text(self) -> str:
        """The number of attempts per group that the prediction is based on, as text."""
        counts = [f"{e.name} {e.group[-1]} {e.part.tries}" for e in self.evidence if e.part.tries]
        return "first tries: " + (", ".join(counts) if counts else "none")


class LogSums(NamedTuple):
    """Sums of effects on log odds, log duration and log cost."""

    odds: float
    log_ms: float
    log_nanos: float


class RoutingModel(msgspec.Struct, frozen=True):
    """The fitted effects; the same observations give the same model, in any order."""

    base: GroupEffect
    parts: tuple[dict[tuple[str, ...], GroupEffect], ...]

    def predict(self, task: TaskFeatures, choice: RoutingChoice) -> Prediction:
        """Return the prediction for a job and a choice."""
        evidence = tuple(self._links(task, choice, 0, len(EFFECTS)))
        log_odds, log_ms, log_nanos = _summed(self.base, evidence)
        return Prediction(
            logistic(log_odds), seconds_from_log_ms(log_ms), math.exp(log_nanos / 1000), evidence
        )

    def task_baseline(self, task: TaskFeatures) -> LogSums:
        """Return the sums for a job, whatever the choice."""
        return _summed(self.base, self._links(task, _ANY, 0, OF_TASKS))

    def engine_sums(self, task: TaskFeatures, choice: RoutingChoice) -> LogSums:
        """Return the sums for a job and an engine, whatever the factory."""
        return _summed(self.base, self._links(task, choice, 0, len(EFFECTS) - OF_FACTORIES))

    def factory_sums(self, engine: str, factory: str) -> LogSums:
        """Return the sums of the effects of a factory and of an engine there."""
        places = len(EFFECTS) - OF_FACTORIES
        links = self._links(_NOTHING, RoutingChoice(engine, factory), places, len(EFFECTS))
        return _summed(NO_EFFECT, links)

    def _links(
        self, task: TaskFeatures, choice: RoutingChoice, first: int, end: int
    ) -> Iterator[Evidence]:
        for effect, effects_of_part in zip(EFFECTS[first:end], self.parts[first:end], strict=True):
            group = effect.group(task, choice)
            if group is not None:
                yield Evidence(effect.name, group, effects_of_part.get(group, NO_EFFECT))


def _summed(base: GroupEffect, links: Iterable[Evidence]) -> LogSums:
    log_odds, log_ms, log_nanos = base.odds, base.log_ms, base.log_nanos
    for link in links:
        log_odds += link.part.odds
        log_ms += link.part.log_ms
        log_nanos += link.part.log_nanos
    return LogSums(log_odds, log_ms, log_nanos)


_NOTHING = TaskFeatures("")
_ANY = RoutingChoice("")


def fit_model(cells: Iterable[tuple[Cell, Observation]]) -> RoutingModel:
    """Return the model fitted to these observations."""
    *_, model = fit_in_steps(cells)
    assert model is not None, "fitting ends with a model"
    return model


def fit_in_steps(
    cell_observations: Iterable[tuple[Cell, Observation]],
) -> Iterator[RoutingModel | None]:
    """Yield None after each small step of the fit, and the model at the end."""
    cells = _sorted(cell_observations)
    observations = [observation for _, observation in cells]
    groups = [[effect.group(cell.task, cell.choice) for cell, _ in cells] for effect in EFFECTS]
    success_fit = _Odds(observations)
    times = _Means([(x.tries, x.log_ms) for x in observations], PRIOR_LOG_MS)
    costs = _Means([(x.priced, x.log_nanos) for x in observations], PRIOR_LOG_NANOS)
    for _ in range(SWEEPS):
        for number, effect in enumerate(EFFECTS):
            success_fit.improve(number, groups[number], effect.tries)
            times.improve(number, groups[number], effect.timed)
            costs.improve(number, groups[number], effect.timed)
            yield None
    parts = []
    for number, _ in enumerate(EFFECTS):
        counted: dict[tuple[str, ...], int] = {}
        for group, observation in zip(groups[number], observations, strict=True):
            if group is not None:
                counted[group] = counted.get(group, 0) + observation.tries
        parts.append(
            {
                group: GroupEffect(
                    success_fit.found[number].get(group, 0.0),
                    times.found[number].get(group, 0.0),
                    costs.found[number].get(group, 0.0),
                    tries,
                )
                for group, tries in counted.items()
            }
        )
    base = GroupEffect(
        success_fit.base, times.base, costs.base, sum(each.tries for each in observations)
    )
    yield RoutingModel(base, tuple(parts))


def _sorted(cells: Iterable[tuple[Cell, Observation]]) -> list[tuple[Cell, Observation]]:
    # Floating-point sums depend on their order, so it must not be the order of arrival.
    return sorted(cells, key=lambda each: msgspec.json.encode(each[0]))


class _Odds:
    """Fits the effects on the log odds of success."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        passes = sum(each.passes for each in observations) + PRIOR_TRIES * PRIOR_SHARE
        self.base = _logit(passes / (sum(each.tries for each in observations) + PRIOR_TRIES))
        self._sums = [self.base] * len(observations)
        self.found: list[dict[tuple[str, ...], float]] = [{} for _ in EFFECTS]

    def improve(self, number: int, groups: Sequence[Group], strength: float) -> None:
        """Refit one effect: actual passes against those expected from the other effects."""
        part = self.found[number]
        seen: dict[tuple[str, ...], list[float]] = {}
        for at, group in enumerate(groups):
            if group is None:
                continue
            observation = self._observations[at]
            self._sums[at] -= part.get(group, 0.0)
            counts = seen.setdefault(group, [0.0, 0.0, 0.0])
            counts[0] += observation.tries
            counts[1] += observation.passes
            counts[2] += observation.tries * logistic(self._sums[at])
        self.found[number] = {
            group: _shrink(tries, passes, expected, strength)
            for group, (tries, passes, expected) in seen.items()
            if tries > 0
        }
        for at, group in enumerate(groups):
            if group is not None:
                self._sums[at] += self.found[number].get(group, 0.0)


class _Means:
    """Fits the effects on the mean of a logarithm."""

    def __init__(self, sums: Sequence[tuple[int, int]], prior: float) -> None:
        self._observations = sums
        total = sum(value for _, value in sums) + PRIOR_TRIES * prior
        self.base = total / (sum(count for count, _ in sums) + PRIOR_TRIES)
        self._sums = [self.base] * len(sums)
        self.found: list[dict[tuple[str, ...], float]] = [{} for _ in EFFECTS]

    def improve(self, number: int, groups: Sequence[Group], strength: float) -> None:
        """Refit one effect: the mean residual without the other effects."""
        part = self.found[number]
        seen: dict[tuple[str, ...], list[float]] = {}
        for at, group in enumerate(groups):
            if group is None:
                continue
            count, value = self._observations[at]
            self._sums[at] -= part.get(group, 0.0)
            counts = seen.setdefault(group, [0.0, 0.0])
            counts[0] += count
            counts[1] += value - count * self._sums[at]
        self.found[number] = {g: left / (n + strength) for g, (n, left) in seen.items() if n > 0}
        for at, group in enumerate(groups):
            if group is not None:
                self._sums[at] += self.found[number].get(group, 0.0)


def _shrink(tries: float, passes: float, expected: float, strength: float) -> float:
    """Return the shrunk difference of a group's log odds from its expectation."""
    usual = expected / tries
    share = (passes + strength * usual) / (tries + strength)
    return _logit(share) - _logit(usual)


def _logit(share: float) -> float:
    return math.log(share / (1.0 - share))


def logistic(log_odds: float) -> float:
    """Return the probability for log odds."""
    return 1.0 / (1.0 + math.exp(-log_odds))


def seconds_from_log_ms(log_ms: float) -> float:
    """Return the seconds for a logarithm of milliseconds in thousandths."""
    return math.exp(log_ms / 1000) / 1000
