"""Tables of docs/performance.md: rows, number formats and verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass

Row = tuple[str, ...]
HEADS = ("benchmark", "result", "compared with", "verdict")


@dataclass(frozen=True)
class Section:
    """A table of the page, with a note on how it was measured."""

    title: str
    rows: Sequence[Row]
    note: str = ""
    heads: tuple[str, ...] = HEADS

    def lines(self) -> list[str]:
        """Return the section as lines of Markdown."""
        lines = [f"## {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines += [_line(self.heads), _line(("---",) * len(self.heads))]
        return [*lines, *map(_line, self.rows), ""]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def verdict(*, met: bool, goal: str) -> str:
    """Format whether a goal was met."""
    return f"{'met' if met else 'not met'}: goal {goal}"


def ms(seconds: float) -> str:
    """Format a duration in milliseconds."""
    return f"{seconds * 1e3:.{0 if seconds >= 0.1 else 1 if seconds >= 0.01 else 2}f} ms"


def percentile(sorted_figures: list[float], share: float) -> float:
    """Return the value below which this share of the figures lies."""
    return sorted_figures[max(0, int(len(sorted_figures) * share) - 1)]


def size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.{0 if unit == 'B' or count >= 100 else 1}f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
