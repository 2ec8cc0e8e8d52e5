"""The command line itself: imported modules, output and exit codes."""

import os
import subprocess
import sys

import click
import pytest

from gigafactory.cli.exit_codes import CODES, MEANINGS, Exit, NotEnrolled, exit_code, next_step
from gigafactory.cli.fleet.insights import cells
from gigafactory.cli.group import aq
from gigafactory.cli.help import GROUPS, MODULES, page
from gigafactory.cli.output.text import plain
from gigafactory.cli.session import access
from gigafactory.client.transport.problems import BY_CODE, Unreachable
from gigafactory.config.loading import load
from gigafactory.domain.errors import (
    Fenced,
    Halted,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthenticated,
)
from gigafactory.domain.insights.run_rollup import RunRollup
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.system.terminal_escapes import keep_colours_only
from gigafactory.wire.insights import RunRollupView

HEAVY = {
    "asyncpg",
    "click",
    "gigafactory.coordinator",
    "gigafactory.domain",
    "httpx",
    "litestar",
    "msgspec",
    "rich",
    "sqlite3",
    "typer",
    "uvicorn",
    "yaml",
}
"""Modules that `aq --help` does not need."""
SERVERS = {"asyncpg", "gigafactory.coordinator", "httpx", "litestar", "sqlite3", "uvicorn"}
"""Modules that no client command needs."""
SLOW = {
    "asyncio",
    "dataclasses",
    "email",
    "encodings.idna",
    "http.client",
    "logging",
    "rich",
    "ssl",
    "subprocess",
    "tomllib",
    "typer",
    "yaml",
}
"""Modules that no client command needs and that are slow to import."""


def imported(*typed: str) -> set[str]:
    """Run a command in a new process and return the names of its imported modules."""
    script = (
        "import sys; sys.argv = ['aq', *sys.argv[1:]]\n"
        "from gigafactory.cli.main import main\n"
        "main(); print('\\n' + ' '.join(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *typed], capture_output=True, check=True, text=True
    )
    return set(ran.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("typed", [(), ("--help",), ("version",), ("--version",)])
def test_help_and_version_import_no_heavy_modules(typed: tuple[str, ...]) -> None:
    assert imported(*typed) & HEAVY == set()


@pytest.mark.parametrize("typed", [("jobs", "--url", "http://127.0.0.1:1"), ("jobs", "--help")])
def test_client_command_imports_no_server_and_no_database(typed: tuple[str, ...]) -> None:
    assert imported(*typed) & (SERVERS | SLOW) == set()


def test_every_command_of_the_front_page_exists_and_has_help() -> None:
    context = click.Context(aq)
    for name in aq.list_commands(context):
        command = aq.get_command(context, name)
        assert command is not None, name
        assert command.name == name
        assert command.help, name


PROMISED = """\
up serve demo factory submit check jobs show logs events explain ship approve reject
request-changes requeue cancel halt resume budget profiles tokens insights routing shadow autoscale
gc mcp dash run add status recover clean promote from-tracker to-tracker doctor completion"""


def test_all_promised_commands_exist() -> None:
    context = click.Context(aq)
    assert [name for name in PROMISED.split() if aq.get_command(context, name) is None] == []
    factory = aq.get_command(context, "factory")
    assert isinstance(factory, click.Group)
    assert {"run", "enroll", "drain", "list"} <= factory.commands.keys()
    for name in ("logs", "events"):
        command = aq.get_command(context, name)
        assert command is not None
        assert "-f" in {option for param in command.params for option in param.opts}, name


def test_every_command_takes_json() -> None:
    context = click.Context(aq)
    commands = {name: aq.get_command(context, name) for name in MODULES}
    for name, command in commands.items():
        inner = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in inner:
            assert each is not None
            options = {option for param in each.params for option in param.opts}
            assert "--json" in options or name == "completion", (name, each.name)


def test_every_action_of_the_lifecycle_is_a_command() -> None:
    assert ACTIONS.keys() <= MODULES.keys()


def test_front_page_fits_a_small_screen_and_names_every_command() -> None:
    lines = page().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(name in page() for group in GROUPS.values() for name in group)


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_refusal_has_an_exit_code(code: str) -> None:
    kinds = BY_CODE[code].__mro__
    assert next(CODES[kind] for kind in kinds if kind in CODES) in MEANINGS


def test_exit_codes_follow_the_table() -> None:
    assert exit_code(NotFound("job", "x")) is Exit.NOT_FOUND
    assert exit_code(Fenced("j", 1, 2)) is Exit.CONFLICT
    assert exit_code(Unauthenticated("no")) is Exit.NOT_ALLOWED
    assert exit_code(TooManyRequests("slow down", 1)) is Exit.UNAVAILABLE
    assert exit_code(Invalid("it", [])) is Exit.REFUSED
    assert set(Exit) == MEANINGS.keys()


def test_refusals_name_the_next_step() -> None:
    assert "aq up" in (next_step(Unreachable("x")) or "")
    assert "aq resume" in (next_step(Halted("x")) or "")
    assert "aq factory enroll" in (next_step(NotEnrolled("x")) or "")
    assert next_step(NotFound("job", "x")) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b]52;c;aGk=\x07copied", "copied"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("\x1b[2Jgone\x1b[10;10H", "gone"),
        ("a\x08b\x00c\rd", "abcd"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x9b31mC1", "31mC1"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_log_output_keeps_colours_and_drops_other_escapes(text: str, shown: str) -> None:
    assert keep_colours_only(text) == shown


def test_title_cannot_write_over_the_table() -> None:
    assert plain("a\x1b[2J\nb\tc\x07\u009b1m") == "a b c1m"


def test_owner_token_is_used_only_for_the_owners_coordinator(tmp_path: object) -> None:
    environ = {"AQ_DATA": str(tmp_path)}
    data = load(environ).config.data
    (data / "admin.token").write_text("gfo_owner\n")
    (data / "server.url").write_text("http://127.0.0.1:5\n")
    here = access(load(environ).config)
    assert (here.url, here.token, here.product) == ("http://127.0.0.1:5", "gfo_owner", "default")
    named = access(load(environ | {"AQ_FLEET_API": "http://127.0.0.1:5/"}).config)
    assert named.token == "gfo_owner"
    away = access(load(environ | {"AQ_FLEET_API": "https://fleet.test"}).config)
    assert (away.url, away.token, away.product) == ("https://fleet.test", None, None)
    mine = access(load(environ | {"AQ_FLEET_TOKEN": "gfo_mine"}).config)
    assert (mine.token, mine.product) == ("gfo_mine", None)


@pytest.mark.parametrize(("columns", "shown"), [(80, False), (160, True)])
def test_narrow_terminal_shows_only_the_main_insight_columns(
    monkeypatch: pytest.MonkeyPatch, columns: int, *, shown: bool
) -> None:
    # Tests run without a terminal, so its width is patched.
    size = os.terminal_size((columns, 24))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda _: size)
    rollup = RunRollup(group="claude", runs=3, shipped=2, cost_nano_usd=7)
    result = cells(RunRollupView.from_domain(rollup), fleet=True)
    assert {"RUNS", "SHIPPED", "FIRST PASS", "WAIT", "COST", "A SHIPPED ONE"} <= result.keys()
    assert [head in result for head in ("JOBS", "ESCAPED", "TOKENS", "TIME")] == [shown] * 4
