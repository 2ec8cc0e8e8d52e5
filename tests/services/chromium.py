"""Chromium, the browser of the tests: the machine's own, or unpacked for them."""

import os
import shutil
from functools import cache
from pathlib import Path

from tests.services.debian import unpacked

PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@cache
def program() -> tuple[Path, dict[str, str]]:
    """The executable, and the environment in which it starts.

    Raises Unavailable.
    """
    if (own := shutil.which("chromium")) is not None:
        return Path(own), dict(os.environ)
    root = unpacked(*PACKAGES)
    # Some libraries look for a part of theirs in a folder of its own, below the real root.
    found = (root / "usr" / "lib").glob("*-linux-gnu")
    libraries = [str(place) for each in found for place in (each, each / "pulseaudio")]
    environ = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return root / "usr" / "lib" / "chromium" / "chromium", environ
