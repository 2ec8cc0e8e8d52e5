"""`aq factory`: list, enrol, drain, run and remove factories."""

import sys
from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import NotEnrolled
from gigafactory.cli.folder.target import INBOX
from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import clock, note, pairs, say, say_json, table
from gigafactory.cli.session import Session, for_fleet, with_settings
from gigafactory.client import fleet
from gigafactory.config.data_dir import is_plain_text, is_this_machine
from gigafactory.domain.errors import NotFound, Unauthenticated
from gigafactory.system.formatting import format_age
from gigafactory.wire.fleet import (
    EnrollmentsView,
    FactoriesView,
    FactoryView,
    InvitationView,
    Membership,
)


@click.group()
def factory() -> None:
    """List, enrol, drain, run and remove factories."""


@factory.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List the factories."""
    session.answer(fleet.factories(), _show_all)


def _show_all(page: FactoriesView) -> None:
    if not page.factories:
        note("no factory has joined yet; create an invitation with `aq factory invite`")
        return
    table(("ID", "STATE", "HEALTH", "SLOTS", "SEEN", "ENGINES"), [_row(f) for f in page.factories])


def _row(one: FactoryView) -> tuple[object, ...]:
    engines = ", ".join(f"{name} x{engine.seats}" for name, engine in one.engines.items())
    seen = format_age(one.last_seen) if one.last_seen else "never"
    return (one.id, _state(one), f"{one.health:.2f}", one.slots, seen, engines)


def _state(one: FactoryView) -> str:
    if not one.online:
        return "offline"
    return "draining" if one.draining else "online"


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def show(session: Session, *, factory_id: str) -> None:
    """Show one factory: capabilities, engines, state and running jobs."""
    session.answer(fleet.factory(factory_id), _show)


def _show(one: FactoryView) -> None:
    pairs(
        (
            ("id", one.id),
            ("state", _state(one)),
            ("health", f"{one.health:.2f}"),
            ("seen", clock(one.last_seen) if one.last_seen else "never"),
            ("offers", "pushed" if one.streaming else "polled"),
            ("os", one.os),
            ("slots", one.slots),
            (
                "engines",
                [f"{name} {e.version or ''}  x{e.seats}" for name, e in one.engines.items()],
            ),
            (
                "cooling",
                [
                    f"{n} until {clock(e.cooling_until)}"
                    for n, e in one.engines.items()
                    if e.cooling_until
                ],
            ),
            (
                "unavailable",
                [f"{n}: {e.unavailable}" for n, e in one.engines.items() if e.unavailable],
            ),
            ("repos", one.repos),
            ("capabilities", one.capabilities),
            ("labels", one.labels),
            ("products", one.products),
            ("version", one.version),
            ("enrolled", clock(one.enrolled_at)),
            ("running", [f"{job.name} ({job.id})" for job in one.jobs or ()]),
        )
    )


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def drain(session: Session, *, factory_id: str) -> None:
    """Stop a factory from taking new jobs; running jobs continue."""
    session.answer(fleet.drain(factory_id), lambda one: say(f"{one.id} is draining"))


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def undrain(session: Session, *, factory_id: str) -> None:
    """Let a drained factory take jobs again."""
    call = fleet.drain(factory_id, draining=False)
    session.answer(call, lambda one: say(f"{one.id} takes jobs again"))


@factory.command()
@click.option("--products", help="Products whose jobs it may take, comma-separated; * for all.")
@click.option(
    "--capability", multiple=True, help="Accept only this advertised capability; repeatable."
)
@click.option("--lasts", type=Duration(), help="Validity of the secret; default: 1h.")
@for_fleet
def invite(
    session: Session, *, products: str | None, capability: tuple[str, ...], lasts: float | None
) -> None:
    """Create a one-time secret with which one machine can join."""
    names = products or session.config.client.product or "*"
    call = fleet.invite(names.split(","), capabilities=capability or None, lasts_s=lasts)

    def show_secret(made: InvitationView) -> None:
        say(made.secret)
        note(f"valid once, until {clock(made.expires_at)}. On the machine that joins:")
        here = session.access
        url = (session.config.server.public_url if here.local else None) or here.url
        note(f"  AQ_FLEET_API={url} aq factory enroll --secret {made.secret}")
        if is_this_machine(url):
            note("only this machine reaches that address; for others see docs/howto/tls.md")

    session.answer(call, show_secret)


@factory.command()
@for_fleet
def invitations(session: Session) -> None:
    """List invitations, without their secrets."""
    session.answer(fleet.invitations(), _show_invitations)


def _show_invitations(page: EnrollmentsView) -> None:
    if not page.enrollments:
        note("no invitations; create one with `aq factory invite`")
        return
    rows = [
        (one.id, ",".join(one.products), one.created_by, clock(one.expires_at), one.used_by or "")
        for one in page.enrollments
    ]
    table(("ID", "PRODUCTS", "BY", "VALID UNTIL", "USED BY"), rows)


@factory.command()
@click.argument("invitation")
@for_fleet
def withdraw(session: Session, *, invitation: str) -> None:
    """Withdraw an invitation; `aq factory invitations` lists them."""
    call = fleet.withdraw(invitation)
    session.answer(call, lambda _done: say(f"invitation {invitation} is withdrawn"))


@factory.command()
@click.argument("factory_id", metavar="[FACTORY]", required=False)
@click.option("--secret", help="The one-time secret; default: ask on stdin.")
@click.option("--label", multiple=True, help="Repeatable.")
@for_fleet
def enroll(
    session: Session, *, factory_id: str | None, secret: str | None, label: tuple[str, ...]
) -> None:
    """Enrol this machine as a factory: exchange an invitation for a token.

    The default name is the host name. The token is stored in the data folder, readable only by
    this user.
    """
    from gigafactory.factory.agent.membership import (
        FleetMembership,
        default_factory_name,
        save_membership,
    )
    from gigafactory.factory.core.data_dir import DataDir

    systems = {"darwin": "mac", "win32": "windows"}
    given = secret or click.prompt("secret", hide_input=True, err=True)
    os = systems.get(sys.platform, sys.platform)
    name = factory_id or session.config.factory.id or default_factory_name()
    if is_plain_text(session.access.url):
        note(
            f"warning: {session.access.url} is not encrypted: the invitation, the factory's token"
            " and all work cross the network in plain text; use an https URL"
        )
    try:
        member = session.client.send(fleet.enroll(given, name, os=os, labels=label))
    except Unauthenticated as refused:
        raise NotEnrolled(refused.detail) from None
    url = session.access.url
    save_membership(
        DataDir.under(session.config.data), FleetMembership(url, member.factory_id, member.token)
    )
    if session.as_json:
        say_json(msgspec.json.encode(member))
    else:
        say(f"{member.factory_id} has joined {url}; start it with `aq factory run`")


def _show_token(member: Membership) -> None:
    say(member.token)
    note(f"token of {member.factory_id}, shown only once; store it safely on that machine")


@factory.command()
@click.argument("factory_id", metavar="[FACTORY]", required=False)
@for_fleet
def rotate(session: Session, *, factory_id: str | None) -> None:
    """Give a factory a new token; the old one is revoked at once.

    On the factory's own machine the stored token is replaced, and a running factory picks it up.
    For another factory the token is printed.
    """
    from gigafactory.client.transport.sync_client import Client
    from gigafactory.factory.agent.membership import load_membership, save_membership
    from gigafactory.factory.core.data_dir import DataDir

    data_dir = DataDir.under(session.config.data)
    own = load_membership(data_dir)
    if own is None or factory_id not in {None, own.factory_id}:
        if factory_id is None:
            raise NotFound("membership", str(data_dir.token_file), "name the factory")
        session.answer(fleet.rotate(factory_id), _show_token)
        return
    member = Client(own.url, own.token).send(fleet.rotate(own.factory_id))
    save_membership(data_dir, msgspec.structs.replace(own, token=member.token))
    if session.as_json:
        say_json(msgspec.json.encode({"factoryId": own.factory_id}))
    else:
        say(f"{own.factory_id} has a new token, stored in {data_dir.token_file}")


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def revoke(session: Session, *, factory_id: str) -> None:
    """Revoke a factory's token: it gets no more jobs, and its leases expire."""
    call = fleet.revoke(factory_id)
    session.answer(call, lambda _done: say(f"the token of {factory_id} is revoked"))


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def deregister(session: Session, *, factory_id: str) -> None:
    """Remove a factory and its tokens."""
    session.answer(fleet.deregister(factory_id), lambda _done: say(f"{factory_id} is removed"))


@factory.command()
@click.option("--once", is_flag=True, help="Exit after one job.")
@click.option("--max-jobs", type=click.IntRange(1), help="Exit after this many jobs.")
@click.option("--idle-exit", type=Duration(), help="Exit after this long without a job.")
@click.option("--leave", is_flag=True, help="Deregister on exit.")
@click.option("--slots", type=click.IntRange(1, 1000), help="Concurrent runs.")
@click.option("--seats", help="Concurrent runs per engine: claude=2,codex=1.")
@INBOX
@click.option("--repos", type=click.Path(path_type=Path), help="Folder with checkouts.")
@click.option("--allow-repo", multiple=True, help="Repo pattern that jobs may name; repeatable.")
@click.option("--label", multiple=True, help="Repeatable.")
@click.option("--source", type=click.Choice(["stream", "gate", "poll"]), help="How jobs arrive.")
@with_settings
def run(session: Session, **options: object) -> None:
    """Take jobs and run them on this machine until stopped.

    SIGTERM or Ctrl-C finishes running jobs and takes no new ones; a second one saves the work and
    hands everything back at once.
    """
    from gigafactory.wiring.factory_process import run_factory

    try:
        run_factory(session.config, options)
    except Unauthenticated as refused:
        raise NotEnrolled(refused.detail) from None
