"""The projects folder of a laptop: jobs may use the repos and folders below it.

`aq up` asks for it or detects it at the first start, and the data folder keeps it. The setting
`factory.roots` replaces it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gigafactory.config.data_dir import read_line
from gigafactory.config.settings import Config
from gigafactory.domain.errors import Unavailable
from gigafactory.system.atomic_file import write_atomically

NAME = "projects"
USUAL = (
    *("projects", "Projects", "code", "Code", "src", "dev", "Developer", "repos", "git"),
    *("work", "workspace"),
)


def load_projects(config: Config) -> Path | None:
    """Return the projects folder that is saved in the data folder; None without one."""
    saved = read_line(config.data / NAME)
    return Path(saved) if saved is not None else None


def save_projects(config: Config, folder: Path) -> None:
    """Save the projects folder for all later starts.

    Raise Unavailable if the data folder cannot be written.
    """
    try:
        config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(config.data / NAME, f"{folder}\n".encode())
    except OSError as error:
        raise Unavailable(
            f"cannot write to the data folder {config.data}: {error.strerror}; make it writable, or"
            " choose another with --data or AQ_DATA"
        ) from None


def detect_projects(environ: Mapping[str, str], here: Path) -> Path:
    """Return the most likely projects folder, which may not exist yet.

    It is the folder of the checkout that `here` is in, below the home; else a usual one.
    """
    home = Path(environ.get("HOME") or Path.home()).resolve()
    folder = _around_checkout(home, here.resolve())
    if folder is not None:
        return folder
    if home == Path(home.anchor):
        # `/src` and `/dev` are folders of the system.
        return home / USUAL[0]
    usual = (home / name for name in USUAL)
    return next((each for each in usual if each.is_dir()), home / USUAL[0])


def with_projects(config: Config, *, near: Path | None = None) -> Config:
    """Return the settings with the projects folder, unless `factory.roots` is set.

    It is the saved one; else, if `near` is given, the one that is detected from there.
    """
    projects = load_projects(config)
    if projects is None and near is not None:
        projects = detect_projects(os.environ, near)
    if config.factory.roots or projects is None:
        return config
    return replace(config, factory=replace(config.factory, roots=(projects,)))


def _around_checkout(home: Path, here: Path) -> Path | None:
    inside = (each for each in (here, *here.parents) if each != home and home in each.parents)
    checkout = next((each for each in inside if (each / ".git").exists()), None)
    if checkout is None or any(part.startswith(".") for part in checkout.relative_to(home).parts):
        return None
    if checkout.parent != home:
        return checkout.parent
    # A clone of this program directly in the home is not a person's project.
    return None if (checkout / "src" / "gigafactory").is_dir() else checkout
