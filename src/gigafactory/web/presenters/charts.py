"""Compute the shapes of bar and line charts, with round numbers on the axis."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 28
TICKS = 4
BAR_MAX = 72
LABELS_MAX = 8


class Tick(NamedTuple):
    """A label on an axis and its position."""

    at: float
    label: str


class Mark(NamedTuple):
    """One value: its bar, its label and its tooltip."""

    x: float
    y: float
    width: float
    height: float
    label: str
    title: str


class Chart(NamedTuple):
    """All shapes of a chart."""

    marks: Sequence[Mark]
    line: str
    """Path through the tops of the marks."""
    ticks: Sequence[Tick]
    labels: Sequence[Tick]
    limit: float | None
    """Vertical position of the limit line, if there is one."""
    width: int = WIDTH
    height: int = HEIGHT


def build_chart(
    values: Sequence[tuple[str, float]],
    format_value: Callable[[float], str],
    *,
    limit: float | None = None,
    at_least: float = 0.0,
    whole: bool = False,
) -> Chart:
    """Lay out a chart of named, non-negative values.

    The axis reaches the highest value, the limit and `at_least`; `whole` values get whole ticks.
    """
    top = axis_top(max([value for _, value in values] + [limit or 0.0, at_least]))
    while whole and top % TICKS:
        top = axis_top(top + 1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = wide / max(len(values), 1)
    bar = min(step * 0.7, BAR_MAX)

    def y(value: float) -> float:
        return TOP + high * (1 - value / top)

    marks = [
        Mark(
            round(LEFT + step * n + (step - bar) / 2, 1),
            round(y(value), 1),
            round(bar, 1),
            round(TOP + high - y(value), 1),
            name,
            f"{name}: {format_value(value)}",
        )
        for n, (name, value) in enumerate(values)
    ]
    points = " L".join(f"{mark.x + mark.width / 2:.1f} {mark.y}" for mark in marks)
    every = max(1, math.ceil(len(values) / LABELS_MAX))
    return Chart(
        marks,
        f"M{points}" if marks else "",
        [
            Tick(round(y(top * n / TICKS), 1), format_value(top * n / TICKS))
            for n in range(TICKS + 1)
        ],
        [Tick(round(mark.x + mark.width / 2, 1), mark.label) for mark in marks[::every]],
        None if limit is None else round(y(limit), 1),
    )


def axis_top(value: float) -> float:
    """Return the top of an axis for `value`: 1, 2, 4 or 8 times a power of ten."""
    if value < sys.float_info.min:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * nice for nice in (1, 2, 4, 8, 10, 20) if power * nice >= value)
