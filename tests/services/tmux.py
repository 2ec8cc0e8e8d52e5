"""tmux, a terminal that can be looked at: the machine's own, or unpacked for the tests."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.services.debian import unpacked

PROMPT = "ready> "
LOOK_EVERY_S = 0.05
WITHIN_S = 60.0


@cache
def program() -> tuple[str, dict[str, str]]:
    """The executable, and the environment in which it starts.

    Raises Unavailable.
    """
    if (own := shutil.which("tmux")) is not None:
        return own, dict(os.environ)
    root = unpacked("tmux")
    libraries = [str(folder) for folder in (root / "usr" / "lib").glob("*-linux-gnu")]
    environ = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return str(root / "usr" / "bin" / "tmux"), environ


class Window:
    """One terminal with a program in it."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        """Say something to this terminal's own server."""
        executable, environ = program()
        done = subprocess.run(
            [executable, "-S", str(self._socket), "-f", "/dev/null", *words],
            env=environ,
            capture_output=True,
            check=True,
            timeout=WITHIN_S,
        )
        return done.stdout.decode()

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, as tmux names them."""
        self.tmux("send-keys", *keys)

    def type(self, words: str) -> None:
        """Write words, and hand them in."""
        self.tmux("send-keys", "-l", words)
        self.press("Enter")

    def resize(self, columns: int, lines: int) -> None:
        """Make it another size."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def has_the_shell(self) -> None:
        """Come back when the program has ended: what was typed before could still be its own."""
        give_up_at = time.monotonic() + WITHIN_S
        while self.tmux("display-message", "-p", "#{pane_current_command}").strip() != "sh":
            assert time.monotonic() < give_up_at, f"the program has not ended\n{self.text}"
            time.sleep(LOOK_EVERY_S)

    def sees(self, *words: str, gone: str = "") -> None:
        """Come back when these words are on the screen, and those others are not."""
        give_up_at = time.monotonic() + WITHIN_S
        while True:
            text = self.text
            shown = f"{text}{' '.join(text.split())}"
            if all(word in shown for word in words) and not (gone and gone in shown):
                return
            assert time.monotonic() < give_up_at, f"{words} not seen on\n{text}"
            time.sleep(LOOK_EVERY_S)


@contextmanager
def a_window(
    folder: Path, command: list[str], environ: Mapping[str, str], size: tuple[int, int] = (80, 24)
) -> Iterator[Window]:
    """A program in a terminal of its own, until the block ends; then a shell is left there."""
    window = Window(folder / "tmux")
    # The size of the terminal that runs the tests would win over that of the window.
    set_up = [f"{k}={v}" for k, v in environ.items() if k not in {"COLUMNS", "LINES", "TMUX"}]
    columns, lines = map(str, size)
    window.tmux(
        *("new-session", "-d", "-x", columns, "-y", lines, "-c", str(folder)),
        *("env", "-i", *set_up, "TERM=tmux-256color", f"PS1={PROMPT}", "sh"),
    )
    try:
        window.tmux("send-keys", "-l", " ".join(command))
        window.press("Enter")
        yield window
    finally:
        window.tmux("kill-server")
