"""`aq tokens`: who may speak to the coordinator."""

import click

from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import clock, note, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tokens as governance
from gigafactory.domain.tenancy.access import Role
from gigafactory.wire.admin import LoginView, TokensView, TokenView


@click.group()
def tokens() -> None:
    """See, make and end tokens. For admins."""


@tokens.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List every token, of people and of factories; secrets are never shown again."""
    session.answer(governance.tokens(), _show_all)


def _show_all(page: TokensView) -> None:
    heads = ("ID", "KIND", "USER", "ROLE", "STATE", "MADE", "PRODUCTS")
    rows = [
        (t.id, t.kind, t.user, t.role, _state(t), clock(t.created_at), ", ".join(t.products))
        for t in page.tokens
    ]
    table(heads, rows)


def _state(token: TokenView) -> str:
    if token.revoked_at:
        return "revoked"
    return f"until {clock(token.expires_at)}" if token.expires_at else "good"


@tokens.command()
@click.argument("user")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), default="viewer", show_default=True
)
@click.option("--products", help="Which products it covers: names with commas, or * for all.")
@click.option("--lasts", type=Duration(), help="For how long; without it, until it is revoked.")
@for_fleet
def create(
    session: Session, *, user: str, role: str, products: str | None, lasts: float | None
) -> None:
    """Make a token for a person; it is printed this once."""
    named = (products or session.config.client.product or "*").split(",")
    call = governance.issue_token(user, role, products=named, lasts_s=lasts)

    def told(made: TokenView) -> None:
        say(made.secret or "")
        note(f"the token of {made.user} ({made.role}), shown this once; id {made.id}")

    session.answer(call, told)


@tokens.command()
@click.argument("token_id", metavar="TOKEN_ID")
@for_fleet
def revoke(session: Session, *, token_id: str) -> None:
    """End a token by its id; streams that it opened are closed."""
    call = governance.revoke_token(token_id)
    session.answer(call, lambda ended: say(f"the token of {ended.user} opens nothing any more"))


@click.command()
@for_fleet
def login(session: Session) -> None:
    """Print an address that signs one browser in as you, once, within ten minutes."""

    def told(made: LoginView) -> None:
        say(f"{session.access.url.rstrip('/')}/login?code={made.code}")
        note("good for one browser, within ten minutes")

    session.answer(governance.login(), told)
