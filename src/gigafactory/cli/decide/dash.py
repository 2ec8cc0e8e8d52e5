"""`aq dash`: the terminal dashboard of a fleet or folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gigafactory.cli.exit_codes import next_step
from gigafactory.cli.folder.target import FOLDER, current_user, folder_target, require_inbox
from gigafactory.cli.session import Session, for_fleet
from gigafactory.config.data_dir import ADMIN_TOKEN, read_line
from gigafactory.config.projects import with_projects
from gigafactory.domain.errors import Unavailable

if TYPE_CHECKING:
    from gigafactory.tui.model.source import DashboardSource

EXTRA = "the dashboard needs an extra: pip install 'gigafactory[dash]'"
NO_TERMINAL = (
    "the dashboard needs a terminal; `aq jobs`, `aq attention`, `aq factory list` and, for a"
    " folder, `aq status` print the same information"
)


@click.command()
@FOLDER
@for_fleet
def dash(session: Session, *, folder: Path | None) -> None:
    """Show the fleet or a folder in the terminal, with one key per action.

    `?` lists the keys. Shows all products of the token, or the one chosen with -p.
    """
    if session.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Unavailable(NO_TERMINAL)
    try:
        from gigafactory.tui.app import DashboardApp
    except ImportError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in {"textual", "rich"}:
            raise
        raise Unavailable(EXTRA) from None
    from gigafactory.system import logging as log

    log.silence()
    target_folder = _folder_to_show(session, folder)
    source = _fleet(session) if target_folder is None else _folder(session, target_folder)
    DashboardApp(source, hint=next_step).run()


def _folder_to_show(session: Session, folder: Path | None) -> Path | None:
    """Return the folder to show; None for the fleet."""
    match session.config.client.dash:
        case "fleet":
            return folder
        case "folder":
            return folder or Path()
        case _:
            return folder_target(session, folder)


def _fleet(session: Session) -> "DashboardSource":
    from gigafactory.client.transport.async_client import AsyncClient
    from gigafactory.tui.model.fleet_source import FleetSource

    coordinator, client_settings = session.access, session.config.client

    def latest() -> str | None:
        # The owner's token may have been replaced since the start.
        own = coordinator.local and client_settings.token is None
        return read_line(session.config.data / ADMIN_TOKEN) if own else None

    client = AsyncClient(
        coordinator.url, coordinator.token, product=client_settings.product, latest=latest
    )
    return FleetSource(client)


def _folder(session: Session, folder: Path) -> "DashboardSource":
    from gigafactory.tui.folder_source.source import FolderSource
    from gigafactory.wiring.folder_process import open_queue

    require_inbox(folder)
    config = with_projects(session.config, near=folder)
    return FolderSource(open_queue(folder), config.factory, config.folder, by=current_user())
