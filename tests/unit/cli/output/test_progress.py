"""Progress of long transfers: shown only on a terminal, and cleared at the end."""

import io
from collections.abc import Iterator

import pytest

from gigafactory.cli.output.progress import with_progress

PIECES = [b"x" * 1_000_000] * 4


class Screen(io.StringIO):
    """A stderr that counts as a terminal and keeps its text."""

    def isatty(self) -> bool:
        return True


def at_a_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setattr("sys.stderr", made)
    return made


def ticking(monkeypatch: pytest.MonkeyPatch, each_s: float) -> None:
    """Advance the clock by `each_s` at every reading."""
    now = iter(range(1_000_000))
    monkeypatch.setattr("gigafactory.cli.output.progress.monotonic", lambda: next(now) * each_s)


def test_long_transfer_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = at_a_screen(monkeypatch)
    ticking(monkeypatch, 0.4)
    assert list(with_progress(iter(PIECES), "film.mp4", 4_000_000)) == PIECES
    result = screen.getvalue().split("\r")[1:]
    assert result[0] == "film.mp4: 2.0 MB of 4.0 MB, 50 %\x1b[K"
    assert result[-1] == "\x1b[K", "the line is empty when it is done"


def test_short_transfer_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = at_a_screen(monkeypatch)
    ticking(monkeypatch, 0.001)
    assert list(with_progress(iter(PIECES), "film.mp4", 4_000_000)) == PIECES
    assert screen.getvalue() == ""


def test_failed_transfer_clears_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = at_a_screen(monkeypatch)
    ticking(monkeypatch, 0.4)

    def breaking() -> Iterator[bytes]:
        yield from PIECES
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        list(with_progress(breaking(), "film.mp4", 8_000_000))
    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_is_not_written_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    ticking(monkeypatch, 0.4)
    assert list(with_progress(iter(PIECES), "film.mp4", 4_000_000)) == PIECES
    assert pipe.getvalue() == ""
