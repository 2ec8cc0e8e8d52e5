"""What a measurement says: rows of a page, and whether a goal was met."""

from collections.abc import Sequence
from dataclasses import dataclass

Row = tuple[str, ...]
HEADS = ("what", "measured", "beside it", "verdict")


@dataclass(frozen=True)
class Section:
    """One table of the page, with a sentence on how it was measured."""

    title: str
    rows: Sequence[Row]
    note: str = ""
    heads: tuple[str, ...] = HEADS

    def lines(self) -> list[str]:
        """The section as markdown."""
        told = [f"## {self.title}", ""]
        if self.note:
            told += [self.note, ""]
        told += [_line(self.heads), _line(("---",) * len(self.heads))]
        return [*told, *map(_line, self.rows), ""]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def verdict(*, met: bool, goal: str) -> str:
    """Whether a goal was met, in words."""
    return f"{'met' if met else 'not met'}: goal {goal}"


def ms(seconds: float) -> str:
    """A short time."""
    return f"{seconds * 1e3:.{0 if seconds >= 0.1 else 1 if seconds >= 0.01 else 2}f} ms"


def percentile(sorted_figures: list[float], share: float) -> float:
    """The figure below which this share of them lies."""
    return sorted_figures[max(0, int(len(sorted_figures) * share) - 1)]


def size(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.{0 if unit == 'B' or count >= 100 else 1}f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
