"""`aq demo`: a small fleet with scripted agents, without account or network."""

import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gigafactory.cli.output.text import note, say
from gigafactory.cli.serve.serve import export_path, server_options
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.data_dir import read_line

if TYPE_CHECKING:
    from gigafactory.server.server import ServerReady

BANNER = """\
The demo runs at {pages}  (seed {seed})

  open    {login}
          (valid for one browser, within ten minutes)
  or      {path}AQ_DATA={data} aq dash
          (in another terminal; likewise `aq jobs`, `aq attention`, …)

Three factories work on a dozen jobs: a roadmap, a failure that is retried, a review
that waits for you, a product that runs out of budget, and a factory that is killed in the
middle of a job and continues it.

Ctrl-C ends it, and everything that it has made is removed.
"""


@click.command()
@server_options
@click.option("--seed", type=int, help="Repeat the demo with this seed.")
@click.option("--once", is_flag=True, help="Exit when nothing more happens by itself.")
@with_settings
def demo(session: Session, *, seed: int | None, once: bool) -> None:
    """Run a demo fleet with scripted agents; leaves nothing behind."""
    from gigafactory.demo.runner import DemoFleet
    from gigafactory.server.server import serve

    number = random.randrange(10_000) if seed is None else seed  # noqa: S311 - a demo
    folder = Path(tempfile.mkdtemp(prefix="aq-demo-"))
    data = folder / "data"
    config = replace(
        session.config,
        data=data,
        store=f"sqlite://{data}/fleet.db",
        blobs=f"file://{data}/blobs",
        history=None,
        # Log lines would hide the banner.
        log=replace(session.config.log, level="warning"),
    )

    async def play(ready: "ServerReady") -> None:
        token = read_line(ready.token_file) or ""
        await DemoFleet(folder, ready.url, token, seed=number).run(once=once)

    def announce(ready: "ServerReady") -> None:
        path = f"{line}\n          " if (line := export_path()) else ""
        say(BANNER.format(pages=ready.pages, login=ready.login, path=path, data=data, seed=number))

    try:
        serve(config, announce, play, stop_with_companion=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    note("The demo has ended; its files are removed.")
