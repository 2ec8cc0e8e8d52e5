"""System packages, unpacked for the tests without installation and without root."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.services import engines
from tests.services.shared import locked

GET_MAX_S = 300.0


class Unavailable(Exception):  # noqa: N818 - named after what happened
    """It cannot be had on this machine; the message says why."""


def unpacked(*packages: str) -> Path:
    """The folder that holds packages as a system would, with what they need and it has not.

    Raises Unavailable.
    """
    home = engines.cache() / packages[0]
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Workers that come at once wait for the first of them, and find its work done.
        with locked(home.parent / f"{home.name}.lock"):
            if not home.exists():
                # Renamed when it is whole: what is in its place is complete.
                begun = home.with_name(f"{home.name}.begun")
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                _fetch(begun, packages)
                begun.rename(home)
    return home / "root"


def _fetch(folder: Path, packages: tuple[str, ...]) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"there is no {tool} to get the package {packages[0]} with")
    lists, downloads = folder / "lists", folder / "downloads"
    archives = downloads / "archives"
    for each in (lists / "lists" / "partial", archives / "partial"):
        each.mkdir(parents=True)
    # With lists of our own, for those of the system may be empty or old, and are root's.
    apt = (
        *("apt-get", "-q", "-y", "-o", f"Dir::State={lists}", "-o", f"Dir::Cache={downloads}"),
        *("-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "APT::Sandbox::User=root"),
        *("-o", "Debug::NoLocking=1", "-o", "APT::Install-Recommends=0"),
    )
    _run(*apt, "update", folder=folder)
    _run(*apt, "install", "--reinstall", "--download-only", *packages, folder=folder)
    for package in archives.glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(folder / "root"), folder=folder)
    for each in (lists, downloads):
        shutil.rmtree(each)


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
        raise Unavailable(f"`{' '.join(command[-3:])}` failed: {said}")
