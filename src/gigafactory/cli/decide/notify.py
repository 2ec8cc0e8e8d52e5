"""`aq notify`: list and test notification channels."""

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
@click.option(
    "--test", is_flag=True, help="Send a test message to every channel, or to the named ones."
)
@click.option(
    "--channel", "-c", "names", multiple=True, metavar="NAME", help="Only this channel; repeatable."
)
@for_fleet
def notify(session: Session, *, test: bool, names: tuple[str, ...]) -> int:
    """List the notification channels in this machine's settings; with --test, try them.

    The coordinator sends what `aq attention` lists. URLs are never printed.
    """
    settings = session.config.notify
    unknown = [name for name in names if name not in settings.channels]
    if unknown:
        channel_names = ", ".join(settings.channels) or "none"
        raise click.UsageError(f"no channel {unknown[0]}; known channels: {channel_names}")
    if names:
        chosen = {name: settings.channels[name] for name in names}
        settings = msgspec.structs.replace(settings, channels=chosen)
    if not settings.channels:
        note("no channels are configured; see notify.channels in aq.toml")
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
    table(("CHANNEL", "PRODUCTS", "KINDS", "URL IN"), rows)
    return Exit.OK


def _test(session: Session, settings: NotifySettings) -> int:
    results = asyncio.run(_send_tests(settings))
    if session.as_json:
        say_json(msgspec.json.encode({"channels": results}))
    else:
        for name, why in results.items():
            say(f"{name}: {why or 'sent'}")
    return Exit.REFUSED if any(results.values()) else Exit.OK


async def _send_tests(settings: NotifySettings) -> Mapping[str, str | None]:
    """Return the error of each channel; None if the message was sent."""
    from gigafactory.coordinator.duties.notifier import CannotSend
    from gigafactory.wiring.notify import open_messenger

    messenger = open_messenger(settings, os.environ)
    results: dict[str, str | None] = {}
    for name in settings.channels:
        try:
            await messenger.send(name, "Gigafactory test message", f"The channel {name} works.")
            results[name] = None
        except CannotSend as why:
            results[name] = str(why)
    return results
