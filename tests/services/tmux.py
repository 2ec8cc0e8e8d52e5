"""tmux, a terminal that tests can read: the installed one, or one unpacked for the tests."""

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
    """Return the executable and the environment to start it with.

    Raises Unavailable.
    """
    if (own := shutil.which("tmux")) is not None:
        return own, dict(os.environ)
    root = unpacked("tmux")
    libraries = [str(folder) for folder in (root / "usr" / "lib").glob("*-linux-gnu")]
    environ = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return str(root / "usr" / "bin" / "tmux"), environ


class Window:
    """A terminal in which a program runs."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        """Run a tmux command on this terminal's server and return its output."""
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
        """The text on the screen."""
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, given by their tmux names."""
        self.tmux("send-keys", *keys)

    def type(self, words: str) -> None:
        """Type a text and press Enter."""
        self.tmux("send-keys", "-l", words)
        self.press("Enter")

    def resize(self, columns: int, lines: int) -> None:
        """Resize the terminal."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def has_the_shell(self) -> None:
        """Wait until the program has ended and the shell gets the input."""
        give_up_at = time.monotonic() + WITHIN_S
        while self.tmux("display-message", "-p", "#{pane_current_command}").strip() != "sh":
            assert time.monotonic() < give_up_at, f"the program has not ended\n{self.text}"
            time.sleep(LOOK_EVERY_S)

    def sees(self, *words: str, gone: str = "") -> None:
        """Wait until all `words` are on the screen and `gone` is not."""
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
    """Run a program from a shell in a new terminal, which is closed when the block ends."""
    window = Window(folder / "tmux")
    # COLUMNS and LINES of the outer terminal would override the size of the window.
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
