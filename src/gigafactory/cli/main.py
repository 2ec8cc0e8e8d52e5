"""The door of `aq`: what can be said at once is said without importing anything."""

import gc
import os
import sys

from gigafactory import __version__
from gigafactory.cli.front import page

HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])
VERSION = (["version"], ["--version"])
GARBAGE_AFTER = 100_000
"""So many objects are made before anybody looks for garbage: most commands make fewer."""


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
    gc.set_threshold(GARBAGE_AFTER)
    try:
        from gigafactory.cli.group import run

        return run(typed)
    finally:
        # The system takes all memory back at once; Python need not look through it first.
        gc.freeze()
