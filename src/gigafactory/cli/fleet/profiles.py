"""`aq profiles`: list, show and save profiles."""

from pathlib import Path
from typing import Any

import click

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.jobs.check import format_fault
from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tokens as governance
from gigafactory.domain.errors import Invalid
from gigafactory.domain.manifest.names import profile_reference
from gigafactory.domain.manifest.profile import parse_profile_file
from gigafactory.wire.jobs import ProfilesView


@click.group()
def profiles() -> None:
    """List and show profiles, and save your own."""


@profiles.command("list")
@for_fleet
def list_(session: Session) -> None:
    """List the profiles of the product, each in its newest version."""
    session.answer(governance.profiles(), _show_all)


def _show_all(page: ProfilesView) -> None:
    table(("NAME", "VERSION", "OF", "PERSONA"), [_row(profile) for profile in page.profiles])


def _row(profile: dict[str, Any]) -> tuple[object, ...]:
    persona = str(profile.get("persona", "")).strip().splitlines() or [""]
    whose = profile.get("productId") or "built-in"
    return (profile["name"], profile.get("version", 1), whose, persona[0])


@profiles.command()
@click.argument("profile", metavar="NAME[@VERSION]")
@for_fleet
def show(session: Session, *, profile: str) -> None:
    """Show one profile; default: its newest version."""
    try:
        name, version = profile_reference(profile)
    except ValueError as expected:
        raise click.UsageError(f"found {profile!r}; expected {expected}") from None
    session.answer(governance.profile(name, version), _show)


def _show(profile: dict[str, Any]) -> None:
    import yaml

    persona = profile.pop("persona", "")
    say(yaml.safe_dump(profile, sort_keys=False, allow_unicode=True).rstrip())
    say("\n" + "\n".join(plain(line) for line in str(persona).splitlines()))


@profiles.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@for_fleet
def save(session: Session, *, file: Path) -> int:
    """Save a profile file for the product; a changed file becomes a new version."""
    text = file.read_bytes()
    try:
        parse_profile_file(text)
    except Invalid as wrong:
        for fault in wrong.faults:
            note(format_fault(str(file), fault))
        return Exit.REFUSED
    call = governance.save_profile(text)
    session.answer(call, lambda saved: say(f"{saved['name']}@{saved['version']}"))
    return Exit.OK
