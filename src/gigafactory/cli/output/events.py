"""Events as one line each."""

import msgspec

from gigafactory.cli.output.text import clock, colour_stage, plain
from gigafactory.wire.jobs import EventView


def event_line(event: EventView, *, with_job: bool = False) -> str:
    """Format an event: time, type, stage, actor and small data."""
    stage = f" → {colour_stage(event.stage)}" if event.stage else ""
    job = f" {event.job_id}" if with_job and event.job_id else ""
    # Hashes mean nothing to people, and `aq explain` describes a decision.
    redundant = {key: event.data.get(key) for key in ("contentHash", "decision")}
    redundant["by"] = event.actor
    small = ", ".join(
        f"{key}={_format(value)}"
        for key, value in event.data.items()
        if value and redundant.get(key) != value
    )
    line = f"{clock(event.at)}{job} {event.type}{stage} by {plain(event.actor)}"
    return f"{line}  {small}" if small else line


def _format(value: object) -> str:
    if isinstance(value, str | int | float):
        return plain(value)
    return plain(msgspec.json.encode(value).decode())
