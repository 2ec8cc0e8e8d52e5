"""Recommendations: what does clearly better than the present mix, in words with the evidence."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gigafactory.domain.learned import Model
from gigafactory.domain.lesson import Cell, Choice, Lesson, Task

TRIES_MIN = 20
"""Fewer first tries, of the choice or of the others, support nothing that anybody should act on."""
LIKELY_SHARE = 0.1
LIKELY_LOG = 0.3
"""How far choices usually are apart, in shares and in logarithms: what is more is half doubted."""
_Z = 1.96
TO = "\u2013"
"""What stands between the two ends of a range."""


class Change(NamedTuple):
    """How much more, of the present mix, with the range that holds it 95 times in a hundred."""

    more: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether it is a change at all, beyond doubt."""
        return self.low > 0.0 or self.high < 0.0


class Recommendation(NamedTuple):
    """A choice for the jobs of a repo with a profile, and what speaks for it."""

    product: str
    repo: str | None
    profile: str | None
    choice: Choice
    tries: int
    others: int
    """First tries of the same jobs with anything else."""
    success: Change
    """In shares: 0.1 is ten points more."""
    time: Change
    """As a part: -0.1 is ten per cent less."""
    cost: Change | None
    """None where nobody knows enough costs."""

    @property
    def gain(self) -> float:
        """How much better it is, all in all; for the order."""
        cheaper = -self.cost.more if self.cost is not None else 0.0
        return 3 * self.success.more - self.time.more + cheaper

    @property
    def told(self) -> str:
        """All of it as a sentence."""
        of = [f"repo {self.repo}" if self.repo else "no repo"]
        of += [f"profile {self.profile}"] if self.profile else []
        on = f" on {self.choice.factory}" if self.choice.factory else ""
        said = [(words, span) for words, span in self._said() if words]
        one = len(said) == 1
        phrases = [words if one else f"{words} ({span})" for words, span in said]
        ranges = f"interval {said[0][1]}" if one else "intervals"
        return (
            f"{', '.join(of)}: {self.choice.engine}{on} {_listed(phrases)} than the present mix"
            f" (n = {self.tries}, 95 % {ranges})"
        )

    def _said(self) -> Iterator[tuple[str, str]]:
        if self.success.sure:
            points = "passes at once {} points {} often"
            yield _phrase(self.success, points, ("more", "less"), "")
        if self.time.sure:
            yield _phrase(self.time, "ships {} % {}", ("slower", "faster"), " %")
        if self.cost is not None and self.cost.sure:
            yield _phrase(self.cost, "is {} % {}", ("dearer", "cheaper"), " %")


def _phrase(change: Change, words: str, ways: tuple[str, str], unit: str) -> tuple[str, str]:
    low, high = sorted((abs(change.low), abs(change.high)))
    way = ways[0] if change.more > 0 else ways[1]
    span = f"{low * 100:.0f}{TO}{high * 100:.0f}{unit}"
    return words.format(f"{abs(change.more) * 100:.0f}", way), span


def _listed(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


class Sums(NamedTuple):
    """What tries came to beyond what was to be expected of their jobs, and how it scattered."""

    tries: int = 0
    passes: int = 0
    over: float = 0.0
    """Passes beyond those expected."""
    log_ms: float = 0.0
    log_ms_squared: float = 0.0
    priced: int = 0
    log_nanos: float = 0.0
    log_nanos_squared: float = 0.0

    def plus(self, other: "Sums", times: int = 1) -> "Sums":
        """Both together."""
        return Sums._make(a + times * b for a, b in zip(self, other, strict=True))


def recommendations(
    known: Iterable[tuple[Cell, Lesson]], model: Model, product: str | None = None
) -> list[Recommendation]:
    """The best choice for each repo and profile, where one is clearly ahead; the best first."""
    groups: dict[tuple[str, str | None, str | None], dict[Choice, Sums]] = {}
    for cell, lesson in known:
        task, choice = cell.task, cell.choice
        if product is not None and task.product != product:
            continue
        of = groups.setdefault((task.product, task.repo, task.profile), {})
        sums = _sums(model, task, lesson)
        for wide in (Choice(choice.engine), Choice(choice.engine, choice.factory)):
            of[wide] = of.get(wide, Sums()).plus(sums)
    found = [best for key, of in groups.items() if (best := _best(*key, of)) is not None]
    return sorted(found, key=lambda r: (-r.gain, r.product, r.repo or "", r.profile or ""))


def _sums(model: Model, task: Task, lesson: Lesson) -> Sums:
    """A cell against what its jobs let one expect: small jobs are quick whoever does them."""
    usual = model.usual(task)
    log_ms, log_nanos = math.log(usual.seconds * 1000), math.log(usual.cost_nano_usd)
    return Sums(
        lesson.tries,
        lesson.passes,
        lesson.passes - lesson.tries * usual.success,
        *_around(lesson.tries, lesson.log_ms, lesson.log_ms_squared, log_ms),
        lesson.priced,
        *_around(lesson.priced, lesson.log_nanos, lesson.log_nanos_squared, log_nanos),
    )


def _around(count: int, total: int, squared: int, middle: float) -> tuple[float, float]:
    """A sum, and one of squares, of what is beyond a middle; both come in thousandths."""
    sum_, squares = total / 1000, squared / 1_000_000
    return sum_ - count * middle, squares - 2 * middle * sum_ + count * middle * middle


def _best(
    product: str, repo: str | None, profile: str | None, of: Mapping[Choice, Sums]
) -> Recommendation | None:
    whole = Sums()
    for choice, sums in of.items():
        if choice.factory is None:
            whole = whole.plus(sums)
    found = []
    for choice, sums in of.items():
        rest = whole.plus(sums, -1)
        if min(sums.tries, rest.tries) < TRIES_MIN:
            continue
        said = Recommendation(
            product,
            repo,
            profile,
            choice,
            sums.tries,
            rest.tries,
            _share_change(sums, rest),
            _ratio(_log_change(_times(sums), _times(rest))),
            _cost_change(sums, rest),
        )
        if _clear(said):
            found.append(said)
    # Of equals the plainer one: an engine alone rather than an engine on one factory.
    key = lambda r: (-r.gain, r.choice.factory is not None, r.choice.engine, r.choice.factory or "")  # noqa: E731
    return min(found, key=key, default=None)


def _clear(said: Recommendation) -> bool:
    """Whether it is better in something beyond doubt, and in nothing worse."""
    better = [said.success.low > 0.0, said.time.high < 0.0]
    worse = [said.success.high < 0.0, said.time.low > 0.0]
    if said.cost is not None:
        better.append(said.cost.high < 0.0)
        worse.append(said.cost.low > 0.0)
    return any(better) and not any(worse)


def _share_change(sums: Sums, rest: Sums) -> Change:
    part = rest.tries / (sums.tries + rest.tries)
    share = (sums.passes + rest.passes + 1) / (sums.tries + rest.tries + 2)
    spread = share * (1 - share) * (1 / sums.tries + 1 / rest.tries)
    more = sums.over / sums.tries - rest.over / rest.tries
    return _pooled(part * more, part * part * spread, LIKELY_SHARE)


def _times(sums: Sums) -> tuple[int, float, float]:
    return sums.tries, sums.log_ms, sums.log_ms_squared


def _cost_change(sums: Sums, rest: Sums) -> Change | None:
    if min(sums.priced, rest.priced) < TRIES_MIN:
        return None
    one = (sums.priced, sums.log_nanos, sums.log_nanos_squared)
    return _ratio(_log_change(one, (rest.priced, rest.log_nanos, rest.log_nanos_squared)))


def _log_change(one: tuple[int, float, float], rest: tuple[int, float, float]) -> Change:
    part = rest[0] / (one[0] + rest[0])
    spread = _variance(*one) / one[0] + _variance(*rest) / rest[0]
    return _pooled(part * (one[1] / one[0] - rest[1] / rest[0]), part * part * spread, LIKELY_LOG)


def _variance(count: int, total: float, squares: float) -> float:
    return max(1e-6, squares / count - (total / count) ** 2) * count / (count - 1)


def _pooled(more: float, variance: float, likely: float) -> Change:
    """A difference, taken half way back where it is as doubtful as differences are likely."""
    held = likely * likely / (likely * likely + variance)
    wide = _Z * math.sqrt(held * variance)
    return Change(held * more, held * more - wide, held * more + wide)


def _ratio(change: Change) -> Change:
    return Change(*(math.expm1(value) for value in change))
