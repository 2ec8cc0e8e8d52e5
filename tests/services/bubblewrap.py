"""Bubblewrap, by which Linux confines programs: the machine's own, or unpacked for the tests."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.services import engines
from tests.services.shared import locked

PACKAGE = "bubblewrap"
NEEDED_OPTION = "--disable-userns"
GET_MAX_S = 300.0


class Unavailable(Exception):  # noqa: N818 - named after what happened
    """It cannot be had on this machine; the message says why."""


@cache
def program() -> Path:
    """The executable; its package is fetched and unpacked if this machine does not have it.

    Raises Unavailable.
    """
    if sys.platform != "linux":
        raise Unavailable("bubblewrap is for Linux")
    if (own := shutil.which("bwrap")) is not None and _suits(Path(own)):
        return Path(own)
    found = _unpacked(engines.cache() / PACKAGE)
    if not _suits(found):
        raise Unavailable(f"the {PACKAGE} of this system does not start, or is older than 0.8")
    return found


def search_path() -> str:
    """A PATH on which the program is found, beside those of the system.

    Raises Unavailable.
    """
    return os.pathsep.join((str(program().parent), "/usr/local/bin", "/usr/bin", "/bin"))


def fetched(folder: Path) -> Path:
    """The executable out of the system's package, below a folder; root is not needed for that.

    Raises Unavailable.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"there is no {tool} to get the package {PACKAGE} with")
    lists, downloads = folder / "lists", folder / "downloads"
    for each in (lists / "lists" / "partial", downloads / "archives" / "partial"):
        each.mkdir(parents=True)
    # With lists of our own, for those of the system may be empty or old, and are root's.
    apt = (
        *("apt-get", "-q", "-y", "-o", f"Dir::State={lists}", "-o", f"Dir::Cache={downloads}"),
        *("-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "APT::Sandbox::User=root"),
    )
    _run(*apt, "update", folder=folder)
    _run(*apt, "download", PACKAGE, folder=folder)
    [package] = folder.glob("*.deb")
    _run("dpkg-deb", "-x", str(package), str(folder / "root"), folder=folder)
    package.unlink()
    for each in (lists, downloads):
        shutil.rmtree(each)
    return folder / "root" / "usr" / "bin" / "bwrap"


def _unpacked(home: Path) -> Path:
    found = home / "root" / "usr" / "bin" / "bwrap"
    if not found.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Workers that come at once wait for the first of them, and find its work done.
        with locked(home.parent / f"{home.name}.lock"):
            if not found.exists():
                # Renamed when it is whole: what is in its place is complete.
                begun = home.with_name(f"{home.name}.begun")
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                fetched(begun)
                begun.rename(home)
    return found


def _suits(found: Path) -> bool:
    done = subprocess.run([found, "--help"], capture_output=True, text=True, check=False)
    return NEEDED_OPTION in done.stdout + done.stderr


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=GET_MAX_S,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()[-1000:]
        raise Unavailable(f"`{command[0]}` could not get the package {PACKAGE}: {said}")
