"""`aq check`: validate job files without a coordinator."""

import sys
from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, with_settings
from gigafactory.config.data_dir import LOCAL_PRODUCT
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.encoder import format_job_file, manifest_to_json
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import JobFile, Manifest
from gigafactory.domain.manifest.names import profile_reference
from gigafactory.domain.manifest.resolution import resolve
from gigafactory.profiles import shipped

STDIN = "-"


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--product", "-p", help="Product of the jobs.")
@with_settings
def check(session: Session, files: tuple[str, ...]) -> int:
    """Validate job files and print their resolved manifests.

    All errors of all files are printed as `file:line: field: message`. `-` reads stdin.
    """
    product = session.config.client.product or LOCAL_PRODUCT
    checked = [_Checked.of(file, product) for file in files]
    if session.as_json:
        say_json(msgspec.json.encode({"files": checked}))
    else:
        for each in checked:
            each.show()
    return Exit.REFUSED if any(each.faults for each in checked) else Exit.OK


def read_job(file: str) -> JobFile:
    """Read a job file or stdin; raise Invalid with all errors, or if it cannot be read."""
    if file == STDIN:
        return parse_job_file(sys.stdin.buffer.read())
    path = Path(file)
    try:
        text = path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise Invalid(file, [Fault("", message)]) from None
    return parse_job_file(text, stem=path.stem)


def format_fault(file: str, fault: Fault) -> str:
    """Format an error like a compiler: file, line, field, message."""
    place = f"{file}:{fault.line}" if fault.line is not None else file
    return (
        f"{place}: {fault.field}: {fault.message}" if fault.field else f"{place}: {fault.message}"
    )


class _Checked(msgspec.Struct, frozen=True):
    """One file: its resolved manifest, or its errors."""

    file: str
    manifest: dict[str, object] | None = None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()
    text: str = ""
    """The manifest as YAML."""

    @classmethod
    def of(cls, file: str, product: str) -> "_Checked":
        try:
            given = read_job(file).manifest
        except Invalid as wrong:
            return cls(file, faults=wrong.faults)
        profile, warnings = None, tuple[str, ...]()
        if given.profile is not None:
            name, _version = profile_reference(given.profile)
            profile = shipped().get(name)
            warnings = () if profile else (_unknown(given),)
        resolved = resolve(given, profile, product=product)
        text = format_job_file(resolved, "").removesuffix("---\n")
        return cls(file, manifest_to_json(resolved), warnings=warnings, text=text)

    def show(self) -> None:
        for fault in self.faults:
            note(format_fault(self.file, fault))
        for warning in self.warnings:
            note(f"{self.file}: {warning}")
        if self.manifest is not None:
            say(f"# {self.file}\n{self.text}")


def _unknown(given: Manifest) -> str:
    profile_names = ", ".join(shipped())
    return (
        f"profile: {given.profile} is not built in ({profile_names}); the product must define it,"
        " and its settings are not shown here"
    )
