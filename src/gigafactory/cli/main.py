"""Entry point of `aq`: help, version and the fast path run before Click is imported."""

import gc
import os
import sys

from gigafactory import __version__
from gigafactory.cli.help import page

HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])
VERSION = (["version"], ["--version"])
FAST_PATHS = (["jobs"], ["jobs", "--json"], ["attention"], ["attention", "--json"])
"""The most frequent commands; served without slow imports."""
GARBAGE_AFTER = 100_000
"""Objects before the first garbage collection: most commands create fewer."""


def main() -> int:
    """Run the command line and return its exit code."""
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
        if typed in FAST_PATHS and not completes:
            from gigafactory.cli.fast_path import run_fast

            if run_fast(typed, os.environ):
                return 0
        from gigafactory.cli.group import run

        return run(typed)
    except KeyboardInterrupt:
        from gigafactory.cli.exit_codes import Exit

        print(file=sys.stderr)  # the terminal has shown a ^C
        return Exit.INTERRUPTED
    finally:
        # Skip the final garbage collection: the process ends anyway.
        gc.freeze()
