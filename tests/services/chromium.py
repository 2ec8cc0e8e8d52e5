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
    libraries = [str(folder) for folder in (root / "usr" / "lib").glob("*-linux-gnu")]
    environ = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return root / "usr" / "lib" / "chromium" / "chromium", environ
