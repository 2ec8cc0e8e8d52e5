"""`aq tokens` and `aq login`: manage access."""

import click

from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import clock, note, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tokens as governance
from gigafactory.domain.tenancy.access import Role
from gigafactory.wire.admin import LoginView, TokensView, TokenView


@click.group()
def tokens() -> None:
    """List, create and revoke tokens. For admins."""


@tokens.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List all tokens of people and factories, without secrets."""
    session.answer(governance.tokens(), _show_all)


def _show_all(page: TokensView) -> None:
    heads = ("ID", "KIND", "USER", "ROLE", "STATE", "CREATED", "PRODUCTS")
    rows = [
        (t.id, t.kind, t.user, t.role, _state(t), clock(t.created_at), ", ".join(t.products))
        for t in page.tokens
    ]
    table(heads, rows)


def _state(token: TokenView) -> str:
    if token.revoked_at:
        return "revoked"
    return f"until {clock(token.expires_at)}" if token.expires_at else "valid"


@tokens.command()
@click.argument("user")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), default="viewer", show_default=True
)
@click.option("--products", help="Products, comma-separated; * for all.")
@click.option("--lasts", type=Duration(), help="Lifetime; default: until revoked.")
@for_fleet
def create(
    session: Session, *, user: str, role: str, products: str | None, lasts: float | None
) -> None:
    """Create a token for a person; it is printed only once."""
    names = (products or session.config.client.product or "*").split(",")
    call = governance.issue_token(user, Role(role), products=names, lasts_s=lasts)

    def show_token(made: TokenView) -> None:
        say(made.secret or "")
        note(f"token of {made.user} ({made.role}), shown only once; id {made.id}")

    session.answer(call, show_token)


@tokens.command()
@click.argument("token_id", metavar="TOKEN_ID")
@for_fleet
def revoke(session: Session, *, token_id: str) -> None:
    """Revoke a token by id; its open streams are closed."""
    call = governance.revoke_token(token_id)
    session.answer(call, lambda ended: say(f"the token of {ended.user} is revoked"))


@click.command()
@for_fleet
def login(session: Session) -> None:
    """Print an address that signs one browser in as you, within ten minutes."""

    def show_login(made: LoginView) -> None:
        say(made.url)
        note("valid for one browser, within ten minutes")

    session.answer(governance.login(), show_login)
