"""`aq events`: events of a job, or of everything, past and live."""

import click
import msgspec

from gigafactory.cli.output.events import event_line
from gigafactory.cli.output.text import say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import events as stories
from gigafactory.wire.jobs import EventView

PAGE = 500


@click.command()
@click.argument("job", required=False)
@click.option("--follow", "-f", is_flag=True, help="Follow new events until Ctrl-C.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events after this number.")
@for_fleet
def events(session: Session, *, job: str | None, follow: bool, after: int) -> None:
    """Print the events of a job; with -f and no job, follow all new events.

    With --json, -f prints one event per line.
    """
    if follow:
        _follow(session, job, after)
    elif job is None:
        raise click.UsageError("name a job, or follow everything with -f; see also `aq audit`")
    else:
        _print_events(session, job, after)


def _print_events(session: Session, job: str, after: int) -> None:
    events_: list[msgspec.Raw] = []
    while page := _page(session, job, after):
        events_ += page
        after = msgspec.json.decode(page[-1], type=EventView).seq
        if len(page) < PAGE:
            break
    if session.as_json:
        say_json(msgspec.json.encode({"events": events_}))
    else:
        for raw in events_:
            say(event_line(msgspec.json.decode(raw, type=EventView)))


def _page(session: Session, job: str, after: int) -> list[msgspec.Raw]:
    body = session.client.fetch(stories.events(job, after=after))
    return msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])["events"]


def _follow(session: Session, job: str | None, after: int) -> None:
    if job is None:
        session.unscoped()
    stream = stories.job_stream(job) if job else stories.product_stream()
    for sent in session.client.follow(stream, after=str(after) if after else None):
        if session.as_json:
            say(sent.data)
        else:
            event = msgspec.json.decode(sent.data, type=EventView)
            say(event_line(event, with_job=job is None))
