"""`aq up`: a coordinator, the web pages and a factory in one process."""

import asyncio
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from gigafactory.cli.output.text import say
from gigafactory.cli.serve.projects import choose_projects
from gigafactory.cli.serve.serve import export_path, server_options
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.data_dir import SERVER_URL, read_line
from gigafactory.config.loading import mask
from gigafactory.config.projects import with_projects
from gigafactory.domain.errors import Unavailable

if TYPE_CHECKING:
    from gigafactory.server.server import ServerReady

BANNER = """\
Gigafactory is up at {pages}

  open    {login}
          (valid for one browser, within ten minutes; `aq login` prints another)
  api     {url}
  data    {data}
  store   {store}
  token   {token_file}  (`aq` finds it there)
  jobs may use the repos and folders below:
          {projects}  (another: {how})

Try, in another terminal:{settings}

  cp fix-login.md {inbox}
                            submit a job; or: aq submit fix-login.md
  aq jobs                   list jobs and their stages
  aq factory list           list engines and capabilities of this machine

Ctrl-C stops it. Nothing is lost: `aq up` continues where it stopped.
"""

ANSWERS_WITHIN_S = 2.0


@click.command()
@server_options
@click.option(
    "--inbox",
    type=click.Path(path_type=Path),
    help="Folder for job files; default: `inbox` in the data folder.",
)
@click.option(
    "--no-factory", is_flag=True, help="Run only the coordinator; this machine takes no jobs."
)
@with_settings
def up(session: Session, *, no_factory: bool) -> None:
    """Run a coordinator, the web pages and a factory on this machine."""
    from gigafactory.server.inbox import serve_inbox
    from gigafactory.server.local_factory import run_local_factory
    from gigafactory.server.server import serve

    config = session.config
    if not (no_factory or config.factory.roots):
        choose_projects(config, ask=True)
    config = with_projects(config)
    inbox = config.factory.inbox or config.data / "inbox"

    async def run_companions(ready: "ServerReady") -> None:
        async with asyncio.TaskGroup() as going:
            token = read_line(ready.token_file)
            going.create_task(serve_inbox(inbox, ready.url, token))
            if not no_factory:
                going.create_task(run_local_factory(config, ready.url, ready.token_file))

    def announce(ready: "ServerReady") -> None:
        banner = BANNER.format(
            pages=ready.pages,
            url=ready.url,
            login=ready.login,
            data=config.data,
            store=mask("store", config.store),
            token_file=ready.token_file,
            inbox=inbox,
            projects=", ".join(map(str, config.factory.roots)) or "no folder",
            how="factory.roots" if session.config.factory.roots else "`aq projects DIR`",
            settings=_settings(session),
        )
        say(banner)

    try:
        serve(config, announce, run_companions)
    except Unavailable as refused:
        running = read_line(config.data / SERVER_URL)
        if running is None or not _is_coordinator(running):
            raise
        raise Unavailable(
            f"{refused.detail}\n    a coordinator already runs at {running}: use it (`aq jobs`),"
            " stop it, or choose another data folder (--data or AQ_DATA)"
        ) from None
    say("Stopped.")


def _is_coordinator(url: str) -> bool:
    """Return whether a coordinator answers there; one that was killed leaves its address."""
    host = urlsplit(url).netloc
    try:
        with closing(HTTPConnection(host, timeout=ANSWERS_WITHIN_S)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def _settings(session: Session) -> str:
    """Return the export lines that another terminal needs to find this program and its data."""
    lines = [f"  {line}" for line in (export_path(),) if line]
    if session.loaded.origin("data") == "flag":
        lines.append(f"  export AQ_DATA={session.config.data}")
    return "".join(["\n\n", "\n".join(lines)]) if lines else ""
