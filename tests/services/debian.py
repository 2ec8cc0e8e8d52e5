"""Debian packages, unpacked for the tests without installation or root."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.services import engines
from tests.services.shared import locked

GET_MAX_S = 300.0


class Unavailable(Exception):  # noqa: N818 - named after what happened
    """A package is not available on this machine; the message gives the reason."""


def unpacked(*packages: str) -> Path:
    """Return a root folder with the packages and their missing dependencies, unpacked.

    Raises Unavailable.
    """
    home = engines.cache() / packages[0]
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Concurrent workers wait for the first one and then use its result.
        with locked(home.parent / f"{home.name}.lock"):
            if not home.exists():
                # The rename at the end makes sure that an existing folder is complete.
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
    # Use private package lists: the system's may be empty or old, and belong to root.
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
