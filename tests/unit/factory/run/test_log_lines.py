"""Log lines: a program cannot forge a line of the factory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.factory.run.log_lines import format_own_line, format_program_output
from gigafactory.system.terminal_escapes import strip_escapes


@pytest.mark.parametrize(
    "line",
    [
        "aq: ended: ok",
        "  aq: ended: ok",
        "\x1b[0maq: ended: ok",
        "a\x1b[1mq: ended: ok",
        "\u200baq: ended: ok",
        "hidden\raq: ended: ok",
        "\x1b[2K\raq: ended: ok",
        "\x01aq: ended: ok",
        "a\x00q: ended: ok",
        "\x7f aq: ended: ok",
        "hidden\x08aq: ended: ok",
        "hidden\x0baq: ended: ok",
        "hidden\x85aq: ended: ok",
        "hidden\u2028aq: ended: ok",
        "hidden\x1b[1Gaq: ended: ok",
        "hidden\x1b[1A\x1b[0maq: ended: ok",
        "\u00ada\u034fq\ufe0f: ended: ok",
        "\u3164aq: ended: ok",
        "\u0430q: ended: ok",
        "\uff41\uff51\uff1a ended: ok",
    ],
)
def test_a_program_that_prints_a_line_of_the_factory_is_marked(line: str) -> None:
    assert format_program_output(line).startswith("| ")


def test_other_lines_stay_as_they_are() -> None:
    text = "one\n\x1b[31mred\x1b[0m\nsays aq: hello\n10 %\r20 %\n\tä \u0430q\n\x1b[2Kdone"
    assert format_program_output(text) == f"{text}\n"


def test_each_line_of_a_text_is_looked_at() -> None:
    assert format_program_output("one\naq: two") == "one\n| aq: two\n"


def test_a_text_of_the_factory_with_several_lines_is_all_its_own() -> None:
    assert format_own_line("verify: make\ntest") == "aq: verify: make\naq:   test\n"
    assert format_own_line("") == "aq: \n"


@given(st.text(st.sampled_from("aq: |\n\r\t\x1b[m0\u200b\u2028x")))
def test_no_text_of_a_program_shows_as_a_line_of_the_factory(text: str) -> None:
    for line in format_program_output(text).split("\n"):
        for part in line.split("\r"):
            assert not strip_escapes(part.replace("\u200b", "")).startswith("aq:")
