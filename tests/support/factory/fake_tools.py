"""Small executables with good and bad output, and an engine that is never started."""

from pathlib import Path
from typing import NoReturn

from gigafactory.domain.manifest.manifest import EngineClass
from gigafactory.engines.protocol.engine import Engine, Work

HANGS = "exec /bin/sleep 600"
FLOODS = 'while :; do echo "9.9.9 and so on, and so on, and so on, and so on, for ever"; done'
GARBAGE = r"printf '\377\376\001\033]0;\007\033[31m'"
FAILS = "echo 'cannot find the runtime' >&2; exit 3"


def program(folder: Path, name: str, body: str) -> Path:
    """Write a shell script into a folder of a PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def agent(folder: Path, name: str, *, version: str, flags: str) -> Path:
    """Write a fake coding agent with these flags; it fails if its model is called."""
    body = f"""
case "$1" in
  --version) {version} ;;
  --help) {flags} ;;
  *) echo "a model was called" >&2; exit 99 ;;
esac"""
    return program(folder, name, body)


def _never(work: Work) -> NoReturn:
    raise AssertionError(f"detection starts no work: {work}")


def fake_engine(
    name: str,
    programs: tuple[str, ...] = (),
    flags: tuple[str, ...] = ("--print", "--model"),
    engine_class: EngineClass | None = "agentic-coder",
) -> Engine:
    """Return an engine that is never started."""
    return Engine(
        name=name,
        programs=programs,
        flags=flags,
        engine_class=engine_class,
        start=_never,
        reader=_never,
    )
