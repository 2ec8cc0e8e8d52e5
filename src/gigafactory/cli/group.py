"""The Click group `aq`: imports commands on use and turns refusals into exit codes."""

import errno
import os
from importlib import import_module

import click
import msgspec

from gigafactory.cli.exit_codes import Exit, exit_code, next_step
from gigafactory.cli.help import MODULES, page
from gigafactory.cli.output.text import note
from gigafactory.domain.errors import Invalid, Refused


class Aq(click.Group):
    """The group `aq`; knows its commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in MODULES:
            return None
        module = import_module(f"gigafactory.cli.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the typed command; suggest the closest name for an unknown one."""
        if args[0] not in MODULES and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], MODULES, n=1)
            hint = f"did you mean `aq {near[0]}`?" if near else "`aq --help` lists all commands"
            raise click.UsageError(f"unknown command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - the same
        return page()


FILE_FAULTS = {
    errno.EACCES: "check its owner and permissions, or choose another folder",
    errno.EPERM: "check its owner and permissions, or choose another folder",
    errno.EROFS: "choose a folder that can be written",
    errno.ENOSPC: "free some space, or choose a folder on another disk",
    errno.EDQUOT: "free some space, or choose a folder on another disk",
    errno.EEXIST: "it is in the way: move it, or choose another folder",
    errno.EISDIR: "it is in the way: move it, or choose another folder",
    errno.ENOTDIR: "name a folder there, or choose another",
    errno.ENAMETOOLONG: "choose a shorter name",
}
"""What to do about what the system refuses for a person's file."""

aq = Aq("aq", context_settings={"help_option_names": ["-h", "--help"]})


def run(typed: list[str]) -> int:
    """Run a command; print a refusal to stderr and return the exit code."""
    try:
        return int(aq.main(typed, prog_name="aq", standalone_mode=False) or Exit.OK)
    except Refused as refused:
        return _refused(refused, as_json="--json" in typed)
    except click.ClickException as wrong:
        note(f"aq: {wrong.format_message()}")
        if isinstance(wrong, click.UsageError) and wrong.ctx is not None:
            note(f"    see `{wrong.ctx.command_path} --help`")
        return Exit.USAGE
    except OSError as error:
        if error.errno not in FILE_FAULTS:
            raise
        note(f"aq: {_describe(error)}")
        return Exit.REFUSED
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED


def _describe(error: OSError) -> str:
    """Return what the system refused, for which file, and what to do."""
    where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    return f"{where}{error.strerror}; {FILE_FAULTS[error.errno or 0]}"


def _refused(refused: Refused, *, as_json: bool) -> int:
    if as_json:
        note(_problem(refused))
        return exit_code(refused)
    if isinstance(refused, Invalid) and refused.faults:
        note(f"aq: {refused.what} is not valid:")
        for fault in refused.faults:
            note(f"  {fault}")
    else:
        note(f"aq: {refused.detail}")
    if hint := next_step(refused):
        note(f"    {hint}")
    return exit_code(refused)


def _problem(refused: Refused) -> str:
    problem: dict[str, object] = {"code": refused.code, "detail": refused.detail}
    if isinstance(refused, Invalid):
        problem["faults"] = refused.faults
    return msgspec.json.encode(problem).decode()
