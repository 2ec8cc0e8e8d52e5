"""`aq doctor`: check this machine and suggest fixes."""

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.output.text import say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client.transport.problems import Unreachable
from gigafactory.config.loading import checkout_of, unknown_variables, warnings
from gigafactory.domain.errors import Refused

PYTHON_MIN = (3, 11)
SANDBOX_GUIDE = (
    "Linux: apt-get install bubblewrap (0.8 or newer), and allow user namespaces; see"
    " docs/howto/sandbox.md"
)
MARKS = {True: ("ok", "green"), False: ("missing", "red"), None: ("note", "yellow")}


class Finding(msgspec.Struct, frozen=True):
    """Result of one check: fine, missing, or a note (None)."""

    what: str
    fine: bool | None
    found: str
    fix: str = ""


@click.command()
@for_fleet
def doctor(session: Session) -> int:
    """Check this machine and suggest how to fix problems."""
    findings = [finding for check in CHECKS for finding in check(session)]
    healthy = all(finding.fine is not False for finding in findings)
    if session.as_json:
        say_json(msgspec.json.encode({"healthy": healthy, "findings": findings}))
    else:
        for each in findings:
            word, colour = MARKS[each.fine]
            say(f"{click.style(f'{word:<8}', fg=colour)} {each.what}: {each.found}")
            if each.fix:
                say(f"         {each.fix}")
    return Exit.OK if healthy else Exit.REFUSED


def _python(_session: Session) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= PYTHON_MIN
    yield Finding("Python", fine, version, "" if fine else "install Python 3.11 or newer")


def _git(_session: Session) -> Iterator[Finding]:
    path = shutil.which("git")
    fix = "install it (Debian, Ubuntu: apt-get install git; macOS: xcode-select --install)"
    yield Finding("git", path is not None, path or "not on PATH", "" if path else fix)


def _settings(session: Session) -> Iterator[Finding]:
    files = {origin for origin in session.loaded.origins.values() if origin.endswith(".toml")}
    yield Finding(
        "settings", fine=True, found=", ".join(sorted(files)) or "no aq.toml; defaults apply"
    )
    for file in sorted(files):
        folder = checkout_of(Path(file))
        if folder is not None:
            found = f"{file} is in the checkout {folder}: the repo or a job may have written it"
            yield Finding("settings", None, found, "look at it, or name another with --config")
    for name, near in unknown_variables(os.environ).items():
        yield Finding("variable", None, f"{name} is unknown", f"did you mean {near}?")
    for warning in warnings(session.config):
        yield Finding("settings", None, warning)


def _data(session: Session) -> Iterator[Finding]:
    folder = session.config.data
    place = next(each for each in (folder, *folder.parents) if each.exists())
    fine = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    fix = f"make {place} writable, or choose another folder: export AQ_DATA=…"
    description = str(folder) if folder.exists() else f"{folder} (created at the first start)"
    yield Finding("data folder", fine, description, "" if fine else fix)


def _projects(session: Session) -> Iterator[Finding]:
    from gigafactory.cli.serve.projects import projects_in_use

    folders, change = projects_in_use(session.config)
    folder_list = ", ".join(map(str, folders))
    missing = next((each for each in folders if not each.is_dir()), None)
    note = f"{missing} does not exist yet; create it, or {change}"
    yield Finding(
        "folders for jobs",
        None if missing else True,
        f"{folder_list}: jobs may use the repos below",
        note if missing else f"to allow others, {change}",
    )


def _sandbox(session: Session) -> Iterator[Finding]:
    from gigafactory.wiring.factory import check_sandbox

    try:
        sandbox = asyncio.run(check_sandbox(session.config))
    except Refused as refused:
        yield Finding("sandbox", fine=False, found=refused.detail, fix=SANDBOX_GUIDE)
        return
    if not sandbox.no_yolo:
        yield Finding("sandbox", fine=True, found=f"runs are held to {sandbox.minimum!r} or more")
        return
    description = f"runs are not confined, and yolo jobs are not taken: {sandbox.no_yolo}"
    yield Finding("sandbox", None, description, SANDBOX_GUIDE)


def _store(session: Session) -> Iterator[Finding]:
    if session.config.store.startswith("postgres"):
        fine = importlib.util.find_spec("asyncpg") is not None
        fix = "pip install 'gigafactory[postgres]'"
        description = "asyncpg is installed" if fine else "asyncpg is not installed"
        yield Finding("PostgreSQL driver", fine, description, "" if fine else fix)


def _channels(session: Session) -> Iterator[Finding]:
    if session.config.notify.channels:
        fine = importlib.util.find_spec("apprise") is not None
        description = "apprise is installed" if fine else "apprise is not installed"
        fix = "pip install 'gigafactory[notify]'"
        yield Finding("notifications", fine, description, "" if fine else fix)


def _server(session: Session) -> Iterator[Finding]:
    from gigafactory.client.jobs import find
    from gigafactory.wire.jobs import JobFilter

    url = session.access.url
    session.unscoped()
    try:
        session.client.send(find(JobFilter(limit=1)))
    except Unreachable as away:
        fix = "start it with `aq up`, or set AQ_FLEET_API to its URL"
        yield Finding("coordinator", fine=False, found=away.detail, fix=fix)
    except Refused as refused:
        yield Finding("coordinator", fine=True, found=url)
        fix = "set AQ_FLEET_TOKEN; an admin creates one with `aq tokens create`"
        yield Finding("token", fine=False, found=refused.detail, fix=fix)
    else:
        yield Finding("coordinator", fine=True, found=url)
        yield Finding("token", fine=True, found="valid")


CHECKS: tuple[Callable[[Session], Iterator[Finding]], ...] = (
    _python,
    _git,
    _settings,
    _data,
    _projects,
    _sandbox,
    _store,
    _channels,
    _server,
)
