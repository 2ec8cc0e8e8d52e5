"""The door of `aq`: what can be said at once is said without importing anything."""

import gc
import os
import sys

from gigafactory import __version__
from gigafactory.cli.help import page

HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])
VERSION = (["version"], ["--version"])
GLANCES = (["jobs"], ["jobs", "--json"], ["attention"], ["attention", "--json"])
"""What people type all day; it is shown without what other commands must import."""
GARBAGE_AFTER = 100_000
"""So many objects are made before anybody looks for garbage: most commands make fewer."""


def main() -> int:
    """Run the command that was typed; the exit code says how it went."""
    typed = sys.argv[1:]
    completes = "_AQ_COMPLETE" in os.environ
    if typed in HELP and not completes:
        print(page())
        return 0
    if typed in VERSION and not completes:
        print(__version__)
        return 0
    gc.set_threshold(GARBAGE_AFTER)
    try:
        if typed in GLANCES and not completes:
            from gigafactory.cli.fast_path import glance

            if glance(typed, os.environ):
                return 0
        from gigafactory.cli.group import run

        return run(typed)
    except KeyboardInterrupt:
        from gigafactory.cli.exit_codes import Exit

        print(file=sys.stderr)  # the terminal has shown a ^C
        return Exit.INTERRUPTED
    finally:
        # The system takes all memory back at once; Python need not look through it first.
        gc.freeze()
