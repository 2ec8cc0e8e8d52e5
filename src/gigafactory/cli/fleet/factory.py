"""`aq factory`: the machines of the fleet, how they join and how they leave."""

import sys
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import INBOX
from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import clock, note, pairs, say, say_json, table
from gigafactory.cli.session import Session, for_fleet, with_settings
from gigafactory.client import fleet
from gigafactory.domain.errors import NotFound
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
    """See the machines of the fleet; let them join, rest and leave."""


@factory.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List the factories."""
    session.answer(fleet.factories(), _show_all)


def _show_all(page: FactoriesView) -> None:
    if not page.factories:
        note("no factory has joined yet; invite one with `aq factory invite`")
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
    """Show one factory: what it has, how it is, what it runs."""
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
            ("off", [f"{n}: {e.unavailable}" for n, e in one.engines.items() if e.unavailable]),
            ("repos", one.repos),
            ("capabilities", one.capabilities),
            ("labels", one.labels),
            ("products", one.products),
            ("version", one.version),
            ("enrolled", clock(one.enrolled_at)),
            ("runs", [f"{job.name} ({job.id})" for job in one.jobs or ()]),
        )
    )


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def drain(session: Session, *, factory_id: str) -> None:
    """Have a factory take nothing new; what it runs goes on."""
    session.answer(fleet.drain(factory_id), lambda one: say(f"{one.id} takes nothing new"))


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def undrain(session: Session, *, factory_id: str) -> None:
    """Have a drained factory take work again."""
    call = fleet.drain(factory_id, draining=False)
    session.answer(call, lambda one: say(f"{one.id} takes work again"))


@factory.command()
@click.option("--products", help="Whose jobs it may take: names with commas, or * for all.")
@click.option("--capability", multiple=True, help="Only these of what it advertises count.")
@click.option("--lasts", type=Duration(), help="How long the secret is good: 1h by default.")
@for_fleet
def invite(
    session: Session, *, products: str | None, capability: tuple[str, ...], lasts: float | None
) -> None:
    """Make a one-time secret by which one machine can join."""
    named = products or session.config.client.product or "*"
    call = fleet.invite(named.split(","), capabilities=capability or None, lasts_s=lasts)

    def told(made: InvitationView) -> None:
        say(made.secret)
        note(f"good once, until {clock(made.expires_at)}. On the machine that joins:")
        note(f"  AQ_FLEET_API={session.access.url} aq factory enroll --secret {made.secret}")

    session.answer(call, told)


@factory.command()
@for_fleet
def invitations(session: Session) -> None:
    """List the invitations that there are, without their secrets."""
    session.answer(fleet.invitations(), _show_invitations)


def _show_invitations(page: EnrollmentsView) -> None:
    if not page.enrollments:
        note("nobody is invited; invite a machine with `aq factory invite`")
        return
    rows = [
        (one.id, ",".join(one.products), one.created_by, clock(one.expires_at), one.used_by or "")
        for one in page.enrollments
    ]
    table(("ID", "PRODUCTS", "BY", "GOOD UNTIL", "USED BY"), rows)


@factory.command()
@click.argument("invitation")
@for_fleet
def withdraw(session: Session, *, invitation: str) -> None:
    """Take an invitation back; `aq factory invitations` lists them."""
    call = fleet.withdraw(invitation)
    session.answer(call, lambda _done: say(f"the secret of {invitation} opens nothing any more"))


@factory.command()
@click.argument("factory_id", metavar="[FACTORY]", required=False)
@click.option("--secret", help="The one-time secret; without it, it is read from stdin.")
@click.option("--label", multiple=True, help="Repeatable.")
@for_fleet
def enroll(
    session: Session, *, factory_id: str | None, secret: str | None, label: tuple[str, ...]
) -> None:
    """Make this machine a factory: exchange an invitation for its token.

    Without a name it is called after the host. The token is kept below the data folder, for this
    user's eyes alone.
    """
    from gigafactory.factory.agent.membership import FleetMembership as Kept
    from gigafactory.factory.agent.membership import default_factory_name, save_membership
    from gigafactory.factory.core.data_dir import DataDir

    systems = {"darwin": "mac", "win32": "windows"}
    given = secret or click.prompt("secret", hide_input=True, err=True)
    os = systems.get(sys.platform, sys.platform)
    name = factory_id or session.config.factory.id or default_factory_name()
    member = session.client.send(fleet.enroll(given, name, os=os, labels=label))
    url = session.access.url
    save_membership(DataDir.under(session.config.data), Kept(url, member.factory_id, member.token))
    if session.as_json:
        say_json(msgspec.json.encode(member))
    else:
        say(f"{member.factory_id} has joined {url}; start it with `aq factory run`")


def _show_token(member: Membership) -> None:
    say(member.token)
    note(f"the token of {member.factory_id}, shown this once; keep it where only it can read it")


@factory.command()
@click.argument("factory_id", metavar="[FACTORY]", required=False)
@for_fleet
def rotate(session: Session, *, factory_id: str | None) -> None:
    """Give a factory a new token; the old one ends at once.

    This machine's own is replaced where it is kept, and a factory at work takes it up by itself;
    another one's is shown.
    """
    from gigafactory.client.transport.sync_client import Client
    from gigafactory.factory.agent.membership import load_membership, save_membership
    from gigafactory.factory.core.data_dir import DataDir

    data_dir = DataDir.under(session.config.data)
    own = load_membership(data_dir)
    if own is None or factory_id not in {None, own.factory_id}:
        if factory_id is None:
            raise NotFound(
                "membership", str(data_dir.token_file), "name the factory whose token it is"
            )
        session.answer(fleet.rotate(factory_id), _show_token)
        return
    member = Client(own.url, own.token).send(fleet.rotate(own.factory_id))
    save_membership(data_dir, msgspec.structs.replace(own, token=member.token))
    if session.as_json:
        say_json(msgspec.json.encode({"factoryId": own.factory_id}))
    else:
        say(f"{own.factory_id} has a new token; it is kept in {data_dir.token_file}")


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def revoke(session: Session, *, factory_id: str) -> None:
    """End a factory's token: it gets nothing any more, and its leases run out."""
    call = fleet.revoke(factory_id)
    session.answer(call, lambda _done: say(f"the token of {factory_id} opens nothing any more"))


@factory.command()
@click.argument("factory_id", metavar="FACTORY")
@for_fleet
def deregister(session: Session, *, factory_id: str) -> None:
    """Remove a factory that is gone, with its tokens."""
    session.answer(fleet.deregister(factory_id), lambda _done: say(f"{factory_id} is gone"))


@factory.command()
@click.option("--once", is_flag=True, help="Take one job, and end with it.")
@click.option("--max-jobs", type=click.IntRange(1), help="End after so many jobs.")
@click.option("--idle-exit", type=Duration(), help="End after so long without a job.")
@click.option("--leave", is_flag=True, help="Deregister at the end: the machine goes with it.")
@click.option("--slots", type=click.IntRange(1, 1000), help="Runs at once.")
@click.option("--seats", help="Runs at once of engines: claude=2,codex=1.")
@INBOX
@click.option("--repos", type=click.Path(path_type=Path), help="A folder of checkouts.")
@click.option("--allow-repo", multiple=True, help="Which repos jobs may name; repeatable.")
@click.option("--label", multiple=True, help="Repeatable.")
@click.option("--source", type=click.Choice(["stream", "gate", "poll"]), help="How work comes.")
@with_settings
def run(session: Session, **options: object) -> None:
    """Take jobs and run them on this machine, until it is told to stop.

    SIGTERM or Ctrl-C lets what runs come to its end and takes nothing new; a second one hands
    everything back at once, with its work saved.
    """
    from gigafactory.wiring.factory_process import run_factory

    run_factory(session.config, options)
