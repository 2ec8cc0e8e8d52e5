"""Chromium for the browser tests: the installed one, or one unpacked for the tests."""

import os
import shutil
from functools import cache
from pathlib import Path

from tests.services.debian import unpacked

PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@cache
def program() -> tuple[Path, dict[str, str]]:
    """Return the executable and the environment to start it with.

    Raises Unavailable.
    """
    if (own := shutil.which("chromium")) is not None:
        return Path(own), dict(os.environ)
    root = unpacked(*PACKAGES)
    # libpulse loads a private library from an absolute path outside of this root folder.
    found = (root / "usr" / "lib").glob("*-linux-gnu")
    libraries = [str(place) for each in found for place in (each, each / "pulseaudio")]
    environ = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return root / "usr" / "lib" / "chromium" / "chromium", environ
