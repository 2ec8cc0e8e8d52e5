"""`aq up`: everything on this machine, in one process, with a word on what to do next."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gigafactory.cli.output.text import say
from gigafactory.cli.serve.serve import listening
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.data_dir import SERVER_URL, read_line
from gigafactory.config.loading import mask
from gigafactory.domain.errors import Unavailable

if TYPE_CHECKING:
    from gigafactory.server.server import Ready

BANNER = """\
Gigafactory is up at {url}

  open    {login}
          (good for one browser, within ten minutes; `aq login` prints another)
  data    {data}
  store   {store}
  token   {token_file}  (yours alone; `aq` finds it there)

Try, in another terminal:{settings}

  cp fix-login.md {inbox}
                            hand in a job; or: aq submit fix-login.md
  aq jobs                   see where it stands
  aq factory list           see what this machine can do

Ctrl-C stops it. Nothing is lost: `aq up` goes on where it stopped.
"""


@click.command()
@listening
@click.option(
    "--inbox",
    type=click.Path(path_type=Path),
    help="Where job files are dropped, `inbox` in the data folder without it.",
)
@click.option("--no-factory", is_flag=True, help="Coordinate only; this machine takes no jobs.")
@with_settings
def up(session: Session, *, no_factory: bool) -> None:
    """Run a coordinator and a factory on this machine, and say where they are."""
    from gigafactory.server.inbox import serve_inbox
    from gigafactory.server.local_factory import work_here
    from gigafactory.server.server import serve

    config = session.config
    inbox = config.factory.inbox or config.data / "inbox"

    async def beside(ready: "Ready") -> None:
        async with asyncio.TaskGroup() as going:
            token = read_line(ready.token_file)
            going.create_task(serve_inbox(inbox, ready.url, token))
            if not no_factory:
                going.create_task(work_here(config, ready.url, ready.token_file))

    def announce(ready: "Ready") -> None:
        told = BANNER.format(
            url=ready.url,
            login=ready.login,
            data=config.data,
            store=mask("store", config.store),
            token_file=ready.token_file,
            inbox=inbox,
            settings=_settings(session),
        )
        say(told)

    try:
        serve(config, announce, beside)
    except Unavailable as refused:
        running = read_line(config.data / SERVER_URL)
        if running is None:
            raise
        raise Unavailable(
            f"{refused.detail}\n    one seems to run at {running} already: use it (`aq jobs`),"
            " stop it, or give this one another folder (--data or AQ_DATA)"
        ) from None
    say("Stopped.")


def _settings(session: Session) -> str:
    """What another terminal must be told to find this data folder, when a flag named it."""
    named = session.loaded.origin("data") == "flag"
    return f"\n\n  export AQ_DATA={session.config.data}" if named else ""
