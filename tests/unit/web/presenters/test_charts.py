"""Charts: round axes, positions of marks, and empty input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.web.presenters.charts import (
    BOTTOM,
    HEIGHT,
    TICKS,
    TOP,
    WIDTH,
    axis_top,
    build_chart,
)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.3, 0.4), (1, 1), (3, 4), (7.2, 8), (9, 10), (12, 20), (81, 100)]
)
def test_axis_ends_in_a_round_number(value: float, top: float) -> None:
    assert axis_top(value) == pytest.approx(top)


def test_chart_has_tooltips_and_a_limit_line() -> None:
    chart = build_chart([("a", 1.0), ("b", 3.0)], "${:g}".format, limit=4.0)
    assert [mark.title for mark in chart.marks] == ["a: $1", "b: $3"]
    assert chart.limit == TOP
    assert [tick.label for tick in chart.ticks] == ["$0", "$1", "$2", "$3", "$4"]
    assert chart.line.startswith("M")


def test_empty_chart_has_axes() -> None:
    chart = build_chart([], str)
    assert (chart.marks, chart.line, len(chart.ticks)) == ([], "", TICKS + 1)


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(0, 1e12)), max_size=60))
def test_every_mark_is_inside_the_chart(values: list[tuple[str, float]]) -> None:
    for mark in build_chart(values, str).marks:
        assert mark.x + mark.width <= WIDTH
        assert TOP - 1 <= mark.y <= HEIGHT - BOTTOM + 1
        assert mark.height >= -0.1


@pytest.mark.parametrize(("value", "top"), [(0, 4), (1, 4), (4, 4), (5, 8), (9, 20), (90, 100)])
def test_counts_have_whole_numbers_on_their_axis(value: int, top: int) -> None:
    ticks = [
        tick.label for tick in build_chart([("a", float(value))], "{:g}".format, whole=True).ticks
    ]
    assert ticks == [f"{top * n // TICKS}" for n in range(TICKS + 1)]


def test_axis_reaches_the_minimum_top() -> None:
    chart = build_chart([("a", 0.2)], "{:.0%}".format, at_least=1.0)
    assert chart.ticks[-1].label == "100%"


def test_width_of_a_single_bar_is_limited() -> None:
    (mark,) = build_chart([("a", 1.0)], str).marks
    assert mark.width < WIDTH / 4
    assert abs(mark.x + mark.width / 2 - WIDTH / 2) < WIDTH / 10
