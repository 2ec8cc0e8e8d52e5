"""`aq audit`: the audit log."""

import click

from gigafactory.cli.output.events import event_line
from gigafactory.cli.output.text import note, say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet
from gigafactory.wire.admin import AuditView


@click.command()
@click.option("--limit", "-n", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue after the previous page.")
@for_fleet
def audit(session: Session, *, limit: int, cursor: str | None) -> None:
    """Print the audit log, newest first: halts, tokens, factories, profiles, products."""
    session.unscoped()
    session.answer(fleet.audit(limit=limit, cursor=cursor), _show)


def _show(page: AuditView) -> None:
    for event in page.events:
        say(event_line(event))
    if page.next_cursor:
        note(f"more: --cursor {page.next_cursor}")
