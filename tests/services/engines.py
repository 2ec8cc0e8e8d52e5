"""The real coding agents that the suite runs: installed once per machine, at pinned versions."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.services.certificates import trusting
from tests.services.shared import locked

CACHE = "AQ_TEST_CACHE"
INSTALL_MAX_S = 600.0


@dataclass(frozen=True)
class Package:
    """The npm package of an agent."""

    name: str
    version: str
    program: str


PACKAGES = {
    "claude": Package("@anthropic-ai/claude-code", "2.1.327", "claude"),
    "codex": Package("@openai/codex", "0.169.0", "codex"),
}


def cache() -> Path:
    """Return the folder that caches installed programs between test runs."""
    given = os.environ.get(CACHE)
    return Path(given) if given else Path.home() / ".cache" / "gigafactory-tests"


def program(engine: str, *, folder: Path | None = None) -> Path:
    """Return the executable of an agent; install the agent first if necessary.

    Raises FileNotFoundError when there is no npm to install it with.
    """
    package = PACKAGES[engine]
    home = (folder or cache()) / "engines" / f"{engine}-{package.version}"
    found = home / "node_modules" / ".bin" / package.program
    if not found.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Concurrent workers wait for the first one and then use its result.
        with locked(home.parent / f"{home.name}.lock"):
            if not found.exists():
                _install(package, home)
    return found


def _install(package: Package, home: Path) -> None:
    """Install into a temporary folder and rename it, so that `home` is always complete."""
    npm = _required("npm", package)
    _required("node", package)
    begun = home.with_name(f"{home.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    begun.mkdir()
    done = subprocess.run(
        [
            *(npm, "install", "--prefix", str(begun), "--no-audit", "--no-fund", "--no-save"),
            f"{package.name}@{package.version}",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_MAX_S,
        env=trusting(),
    )
    if done.returncode:
        raise RuntimeError(f"{package.name}@{package.version} was not installed:\n{done.stderr}")
    begun.rename(home)


def _required(tool: str, package: Package) -> str:
    found = shutil.which(tool)
    if found is None:
        raise FileNotFoundError(
            f"no {tool} on PATH: the tests with the real {package.program} need Node.js 18 or newer"
            " with its npm (Debian, Ubuntu: apt-get install nodejs npm)"
        )
    return found
