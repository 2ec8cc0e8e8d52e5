"""The door of `aq`: what can be said at once is said without importing anything."""

import os
import sys

from gigafactory import __version__
from gigafactory.cli.front import page

HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])
VERSION = (["version"], ["--version"])


def main() -> int:
    """Run the command that was typed; the exit code says how it went."""
    typed = sys.argv[1:]
    if "_AQ_COMPLETE" not in os.environ:
        if typed in HELP:
            print(page())
            return 0
        if typed in VERSION:
            print(__version__)
            return 0
    from gigafactory.cli.group import run

    return run(typed)
