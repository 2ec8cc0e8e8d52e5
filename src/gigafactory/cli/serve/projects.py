"""`aq projects`: the folder below which jobs may use repos on a person's own machine."""

import os
import sys
from pathlib import Path

import click
import msgspec

from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.projects import detect_projects, load_projects, save_projects
from gigafactory.config.settings import Config
from gigafactory.domain.errors import Fault, Invalid


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@with_settings
def projects(session: Session, *, folder: Path | None) -> None:
    """Print the projects folder of this machine, or choose another.

    Jobs may name the repos below it by path, and work in place there. `factory.roots` in aq.toml
    replaces it. `aq factory run` does not use it: there, the operator sets `factory.roots`.
    """
    config = session.config
    if folder is not None:
        save_projects(config, check_folder(folder))
        note("restart `aq up` if it is running: it uses the new folder after that")
    roots = config.factory.roots or (choose_projects(config),)
    if session.as_json:
        say_json(msgspec.json.encode({"folders": [str(each) for each in roots]}))
        return
    for each in roots:
        say(str(each))


def choose_projects(config: Config, *, ask: bool = False) -> Path:
    """Return the saved projects folder; else detect one, ask on a terminal, and save it."""
    if (saved := load_projects(config)) is not None:
        return saved
    suggested = detect_projects(os.environ, Path.cwd())
    if ask and sys.stdin.isatty() and sys.stdout.isatty():
        say("Jobs may use the repos below one folder of yours, and nothing else in your home.")
        suggested = click.prompt(
            "Projects folder",
            default=str(suggested),
            value_proc=lambda text: check_folder(Path(text)),
        )
    save_projects(config, suggested)
    return suggested


def projects_in_use(config: Config) -> tuple[tuple[Path, ...], str]:
    """Return the folders that jobs may use on this machine, and how to change them."""
    if config.factory.roots:
        return config.factory.roots, "change `factory.roots` in aq.toml"
    folder = load_projects(config) or detect_projects(os.environ, Path.cwd())
    return (folder,), "choose another with `aq projects DIR`"


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a projects folder; raise Invalid for a whole home."""
    place = folder.expanduser().absolute()
    if place.resolve() in {Path.home().resolve(), Path(place.anchor)}:
        fault = Fault("folder", "a whole home has more than projects; name a folder in it")
        raise Invalid("the projects folder", [fault])
    if place.exists() and not place.is_dir():
        raise Invalid("the projects folder", [Fault("folder", f"{place} is not a folder")])
    return place
