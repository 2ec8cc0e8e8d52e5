"""Durations on the command line: 90s, 45m, 4h, 2d."""

import click

from gigafactory.domain.manifest.units import parse_duration


class Duration(click.ParamType[float]):
    """A duration in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_duration(str(value)).total_seconds()
        except ValueError as expected:
            self.fail(f"found {value!r}; expected {expected}", param, ctx)
