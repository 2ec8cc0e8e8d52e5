"""`aq config`: all settings with their origin."""

import os

import click
import msgspec

from gigafactory.cli.output.text import note, say_json, table
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.env_vars import variable
from gigafactory.config.loading import unknown_variables


@click.command()
@with_settings
def config(session: Session) -> None:
    """Print every setting with its value and origin.

    Later sources override earlier ones: defaults, the nearest aq.toml, AQ_… variables, flags.
    Secrets are masked.
    """
    loaded = session.loaded
    rows = [(key, value, loaded.origin(key)) for key, value in loaded.masked_values().items()]
    if session.as_json:
        origins = {key: {"value": value, "origin": origin} for key, value, origin in rows}
        say_json(msgspec.json.encode(origins))
    else:
        cells = [
            (key, _format(value), origin, variable(key) if origin == "default" else "")
            for key, value, origin in rows
        ]
        table(("SETTING", "VALUE", "FROM", "VARIABLE"), cells)
    for name, near in unknown_variables(os.environ).items():
        note(f"aq: unknown variable {name}; did you mean {near}?")


def _format(value: object) -> str:
    match value:
        case None:
            return "-"
        case dict():
            return ", ".join(f"{name}={each}" for name, each in value.items()) or "-"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
