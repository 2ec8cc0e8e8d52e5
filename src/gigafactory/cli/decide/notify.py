"""`aq notify`: the channels on which people hear of what needs them."""

import asyncio
import os
from collections.abc import Mapping

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.output.text import note, say, say_json, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.config.settings import NotifySettings


@click.command()
@click.option("--test", is_flag=True, help="Send a message on every channel, or on those named.")
@click.option("--channel", "-c", "names", multiple=True, metavar="NAME", help="Only this one.")
@for_fleet
def notify(session: Session, *, test: bool, names: tuple[str, ...]) -> int:
    """List the channels that this machine's settings name; with --test, try them.

    The coordinator tells on them what `aq attention` lists. An address is never printed.
    """
    settings = session.config.notify
    unknown = [name for name in names if name not in settings.channels]
    if unknown:
        known = ", ".join(settings.channels) or "none"
        raise click.UsageError(f"there is no channel {unknown[0]}; there are: {known}")
    if names:
        chosen = {name: settings.channels[name] for name in names}
        settings = msgspec.structs.replace(settings, channels=chosen)
    if not settings.channels:
        note("no channels are set; see notify.channels in aq.toml")
        return Exit.OK
    return _test(session, settings) if test else _list(session, settings)


def _list(session: Session, settings: NotifySettings) -> int:
    if session.as_json:
        say_json(msgspec.json.encode({"channels": settings.channels}))
        return Exit.OK
    rows = [
        (
            name,
            ", ".join(each.products),
            ", ".join(each.kinds) or "all",
            f"${each.url_env}" if each.url_env else str(each.url_file),
        )
        for name, each in settings.channels.items()
    ]
    table(("CHANNEL", "PRODUCTS", "KINDS", "ADDRESS IN"), rows)
    return Exit.OK


def _test(session: Session, settings: NotifySettings) -> int:
    results = asyncio.run(_tried(settings))
    if session.as_json:
        say_json(msgspec.json.encode({"channels": results}))
    else:
        for name, why in results.items():
            say(f"{name}: {why or 'sent'}")
    return Exit.REFUSED if any(results.values()) else Exit.OK


async def _tried(settings: NotifySettings) -> Mapping[str, str | None]:
    """What became of a message on each channel: None where it went out, else why not."""
    from gigafactory.coordinator.duties.notifier import CannotSend
    from gigafactory.wiring.notify import open_messenger

    messenger = open_messenger(settings, os.environ)
    results: dict[str, str | None] = {}
    for name in settings.channels:
        try:
            await messenger.send(name, "A test of gigafactory", f"The channel {name} works.")
            results[name] = None
        except CannotSend as why:
            results[name] = str(why)
    return results
