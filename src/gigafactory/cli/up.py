"""`aq up`: everything on this machine, in one process, with a word on what to do next."""

import click

from gigafactory.cli.output import say
from gigafactory.cli.queue_folder import INBOX
from gigafactory.cli.serve import listening
from gigafactory.cli.session import Session, with_settings
from gigafactory.config import masked
from gigafactory.domain.errors import Unavailable
from gigafactory.local import SERVER_URL, read_line

BANNER = """\
Gigafactory is up at {url}

  data    {data}
  store   {store}
  token   {token_file}  (yours alone; `aq` finds it there)

Try, in another terminal:{settings}

  aq submit fix-login.md    hand in a job
  aq jobs                   see where it stands
  aq factory list           see what this machine can do

Ctrl-C stops it. Nothing is lost: `aq up` goes on where it stopped.
"""


@click.command()
@listening
@INBOX
@click.option("--no-factory", is_flag=True, help="Coordinate only; this machine takes no jobs.")
@with_settings
def up(session: Session, *, no_factory: bool) -> None:
    """Run a coordinator and a factory on this machine, and say where they are."""
    from gigafactory.local_factory import work_here
    from gigafactory.server import Ready, serve

    config = session.config

    def announce(ready: Ready) -> None:
        told = BANNER.format(
            url=ready.url,
            data=config.data,
            store=masked("store", config.store),
            token_file=ready.token_file,
            settings=_settings(session),
        )
        say(told)

    try:
        serve(
            config,
            announce,
            None if no_factory else lambda r: work_here(config, r.url, r.token_file),
        )
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
