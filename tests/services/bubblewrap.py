"""Bubblewrap, the Linux sandbox: the installed one, or one unpacked for the tests."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.services.debian import Unavailable, unpacked

PACKAGE = "bubblewrap"
NEEDED_OPTION = "--disable-userns"


@cache
def program() -> Path:
    """Return the executable; download and unpack its package if it is not installed.

    Raises Unavailable.
    """
    if sys.platform != "linux":
        raise Unavailable("bubblewrap is for Linux")
    if (own := shutil.which("bwrap")) is not None and _suits(Path(own)):
        return Path(own)
    found = unpacked(PACKAGE) / "usr" / "bin" / "bwrap"
    if not _suits(found):
        raise Unavailable(f"the {PACKAGE} of this system does not start, or is older than 0.8")
    return found


def search_path() -> str:
    """Return a PATH with the program's folder before the system's folders.

    Raises Unavailable.
    """
    return os.pathsep.join((str(program().parent), "/usr/local/bin", "/usr/bin", "/bin"))


def _suits(found: Path) -> bool:
    done = subprocess.run([found, "--help"], capture_output=True, text=True, check=False)
    return NEEDED_OPTION in done.stdout + done.stderr
