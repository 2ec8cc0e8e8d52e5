"""Writes the reference pages from the code: `python -m tools.reference` (`--check` compares)."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from gigafactory import __version__
from gigafactory.api.app import create_app
from gigafactory.api.http.openapi import describe
from gigafactory.blobs.files import FileBlobs
from gigafactory.cli.exit_codes import MEANINGS
from gigafactory.cli.group import aq
from gigafactory.cli.help import GROUPS
from gigafactory.config import loading as config
from gigafactory.config import settings as tree
from gigafactory.config.env_vars import LEGACY, AlwaysOnVariable, RenamedVariable, variable
from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.job.event_types import FLEET_EVENTS, JOB_EVENTS
from gigafactory.domain.job.job import BOARD, FINAL, Stage
from gigafactory.domain.job.lifecycle import ACTION_TARGETS, ACTIONS, TRANSITIONS
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Role
from gigafactory.profiles import shipped
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from tools.dashboard import dashboard
from tools.metric_names import families, labels

ROOT = Path(__file__).parents[1]
MADE = "<!-- Made by `make docs` from the code; edit that instead. -->"
WIDTH = 90
DASHBOARD = "deploy/grafana/gigafactory.json"
HELP = ["-h", "--help"]


def cli() -> Iterator[str]:
    """Every command with its help, and the exit codes."""
    yield "# Commands\n"
    yield "Results go to stdout, everything else to stderr. `--json` prints the API's own answer.\n"
    yield "## Exit codes\n"
    yield from table(("code", "meaning"), [(int(code), text) for code, text in MEANINGS.items()])
    root = _context(aq, None, "aq")
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name in names:
            command = aq.get_command(root, name)
            assert command is not None, f"the front page names {name}"
            yield from _command(command, _context(command, root, name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### `{context.command_path}`\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _command(inner, _context(inner, context, name))


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    return click.Context(
        command, parent=parent, info_name=name, terminal_width=WIDTH, help_option_names=HELP
    )


def settings() -> Iterator[str]:
    """Every setting with its variable, default and meaning."""
    yield "# Settings\n"
    yield (
        "Defaults, then `aq.toml` (the nearest, here or in a folder above, or `--config`), then"
        " variables, then flags: the later one wins. An unknown key is refused. `aq config` prints"
        " what is in force, and where each value came from. In variables, tables are written"
        " `claude=4,codex=2` and lists `a,b`.\n"
    )
    source = ast.parse(Path(tree.__file__).read_text())
    meanings = {
        node.name: dict(_meanings(node)) for node in source.body if isinstance(node, ast.ClassDef)
    }
    rows = [
        (f"`{key}`", f"`{variable(key)}`", default, meanings[section][field])
        for section, field, key, default in _fields(tree.Config, "")
    ]
    yield from table(("setting", "variable", "default", "meaning"), rows)
    yield "## Variables of old\n"
    yield "They are still understood; the setting's own variable counts where both are there.\n"
    yield from table(("variable", "means"), [(f"`{n}`", _meaning(n)) for n in LEGACY])
    for key, section in _named(config.settings()):
        yield f"## Each of `{key}`\n"
        told = meanings[section.__name__]
        fields = [
            (f"`{field.encode_name}`", _default(field), told.get(field.name, ""))
            for field in msgspec.structs.fields(section)
        ]
        yield from table(("setting", "default", "meaning"), fields)


def _meaning(name: str) -> str:
    """What a variable of old says, in terms of settings."""
    meant = LEGACY[name]
    if isinstance(meant, RenamedVariable):
        return f"the same as `{variable(meant.key)}`"
    if isinstance(meant, AlwaysOnVariable):
        return f"`1`: as it is anyway; `0` is refused: {meant.instead}"
    return " · ".join(
        f"`{digit}`: `{meant.key}` is {f'`{value}`' if value else 'empty'}"
        for digit, value in (("1", meant.on), ("0", meant.off))
        if value is not None
    )


def _named(kinds: Mapping[str, object]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """The settings that are tables of sections, by names that people choose."""
    for key, kind in kinds.items():
        for part in getattr(kind, "__args__", ()):
            if isinstance(part, type) and issubclass(part, tree.Section):
                yield key, part


def _meanings(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The sentence under each field of a section."""
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(below.value, ast.Constant)
            yield field.target.id, str(below.value.value)


def _fields(section: type[msgspec.Struct], under: str) -> Iterator[tuple[str, str, str, str]]:
    for field in msgspec.structs.fields(section):
        key = f"{under}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, tree.Section):
            yield from _fields(field.type, f"{key}.")
        else:
            yield section.__name__, field.name, key, PLACES.get(key) or _default(field)


PLACES = {
    "data": "`gigafactory` in the user's data directory",
    "store": "`sqlite:///<data>/fleet.db`",
    "blobs": "`file:///<data>/blobs`",
}


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory() if callable(field.default_factory) else field.default
    if value is msgspec.NODEFAULT:
        return "must be set"
    if value in (None, (), {}):
        return "none"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def api() -> Iterator[str]:
    """Every operation of the OpenAPI description."""
    yield "# API\n"
    told = describe(create_app(_coordinator()), __version__)
    yield told["info"]["description"]
    yield "The whole description, with schemas and examples, is at `/api/openapi.json`.\n"
    operations = [
        (operation, method.upper(), path)
        for path, methods in told["paths"].items()
        for method, operation in sorted(methods.items())
    ]
    for tag in sorted({operation["tags"][0] for operation, _, _ in operations}):
        yield f"## {tag}\n"
        rows = [
            (f"`{method} {path}`", operation["summary"], " ".join(operation["responses"]))
            for operation, method, path in operations
            if operation["tags"][0] == tag
        ]
        yield from table(("operation", "what it does", "statuses"), rows)


def _coordinator() -> Coordinator:
    return Coordinator(
        MemoryStore(),
        LocalDispatch(),
        FileBlobs(ROOT / "none"),
        SystemClock(),
        RandomIds(),
        settings=CoordinatorSettings(coordinator_id="reference"),
        builtin_profiles=shipped(),
    )


def events() -> Iterator[str]:
    """The vocabulary of events."""
    yield "# Events\n"
    yield (
        "Each event has `seq`, `type`, `at`, `actor`, `productId`, `jobId`, the `stage` after it,"
        " small `data`, and its `position` in the change feed.\n"
    )
    for title, told in (("Of a job", JOB_EVENTS), ("Of the fleet: the audit log", FLEET_EVENTS)):
        yield f"## {title}\n"
        rows = [(f"`{kind}`", meaning) for kind, meaning in told.items()]
        yield from table(("type", "what it tells"), rows)


def roles() -> Iterator[str]:
    """Which role may do what."""
    yield "# Roles\n"
    yield "A person's token has one role, within the products that it covers.\n"
    rows = [
        (f"`{verb}`", *("yes" if role in allowed else "" for role in Role))
        for verb, allowed in ROLES_BY_VERB.items()
    ]
    yield from table(("verb", *(role.value for role in Role)), rows)


def lifecycle() -> Iterator[str]:
    """The stages, the moves between them, and what people may do in each."""
    yield "# Lifecycle\n"
    yield "```mermaid\nstateDiagram-v2"
    for move in TRANSITIONS:
        yield f"    {move.before or '[*]'} --> {move.after}: {_short(move.when)}"
    for stage in sorted(FINAL):
        yield f"    {stage} --> [*]"
    yield "```\n"
    yield "Every other move is refused: 409 `illegal_transition`, naming both stages.\n"
    yield "## Moves\n"
    rows = [(f"`{m.before or 'none'}`", f"`{m.after}`", m.when, m.by) for m in TRANSITIONS]
    yield from table(("from", "to", "when", "by"), rows)
    yield "## What people may do\n"
    yield from table(
        ("action", "in the stages", "leads to", "roles"),
        [
            (
                f"`{action}`",
                ", ".join(stage for stage in Stage if stage in stages),
                ACTION_TARGETS[action].value,
                ", ".join(role for role in Role if role in ROLES_BY_VERB[action]),
            )
            for action, stages in ACTIONS.items()
        ],
    )
    yield "## Columns of a board\n"
    yield from table(("column", "stages"), [(name, ", ".join(of)) for name, of in BOARD.items()])


def _short(when: str) -> str:
    return when.partition(",")[0].partition(":")[0]


def metrics() -> Iterator[str]:
    """Every metric, with its kind, its labels and its meaning."""
    yield "# Metrics\n"
    yield "At `/metrics`, on the root. How to collect, see and be alerted by them:"
    yield "[watch the fleet](../howto/monitoring.md).\n"
    ends = {"counter": "_total"}
    rows = [
        (
            f"`{family.name}{ends.get(family.type, '')}`",
            family.type,
            ", ".join(f"`{label}`" for label in labels(family)),
            family.documentation,
        )
        for family in sorted(families(), key=lambda family: family.name)
    ]
    yield from table(("metric", "kind", "labels", "what it tells"), rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table in markdown."""
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in row)} |"
    yield ""


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "docs/reference/cli.md": cli,
    "docs/reference/settings.md": settings,
    "docs/reference/api.md": api,
    "docs/reference/metrics.md": metrics,
    "docs/reference/events.md": events,
    "docs/reference/roles.md": roles,
    "docs/lifecycle.md": lifecycle,
}


def pages() -> dict[str, str]:
    """Every page as it should be, by its path in the repository."""
    made = {path: "\n".join([MADE, *make()]).rstrip() + "\n" for path, make in PAGES.items()}
    return made | {DASHBOARD: "\n".join(dashboard()) + "\n"}


def outdated() -> list[str]:
    """The pages that are not as they should be."""
    return [
        path
        for path, text in pages().items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text() != text
    ]


def main() -> int:
    """Write the pages, or with `--check` say which are out of date."""
    if "--check" in sys.argv[1:]:
        late = outdated()
        sys.stderr.writelines(f"{path} is out of date; run `make docs`\n" for path in late)
        return 1 if late else 0
    for path, text in pages().items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
