"""Events as people read them: one line each."""

import msgspec

from gigafactory.cli.output.text import clock, plain, staged
from gigafactory.wire.jobs import EventView


def event_line(event: EventView, *, with_job: bool = False) -> str:
    """When, what, by whom, and the small print that it carries."""
    stage = f" → {staged(event.stage)}" if event.stage else ""
    job = f" {event.job_id}" if with_job and event.job_id else ""
    # Hashes say nothing to people, and `aq explain` tells a decision in words.
    told_already = {key: event.data.get(key) for key in ("contentHash", "decision")}
    told_already["by"] = event.actor
    small = ", ".join(
        f"{key}={_written(value)}"
        for key, value in event.data.items()
        if value and told_already.get(key) != value
    )
    told = f"{clock(event.at)}{job} {event.type}{stage} by {plain(event.actor)}"
    return f"{told}  {small}" if small else told


def _written(value: object) -> str:
    if isinstance(value, str | int | float):
        return plain(value)
    return plain(msgspec.json.encode(value).decode())
