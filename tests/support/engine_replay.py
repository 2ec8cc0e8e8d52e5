"""Replays of recorded engine output."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gigafactory.engines.protocol.engine import Engine, EngineEvent, EngineVerdict, ToolCall, Work

RECORDED = Path(__file__).parents[1] / "unit" / "engines" / "recorded"
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


class Replay(msgspec.Struct, frozen=True):
    """The events and the verdict of one recording."""

    events: list[EngineEvent]
    verdict: EngineVerdict

    def events_of(self, kind: type[EngineEvent]) -> list[EngineEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tools(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, ToolCall)]

    @property
    def failure_kind(self) -> str | None:
        return self.verdict.failure.kind if self.verdict.failure else None

    @property
    def tokens(self) -> tuple[int, int, int]:
        usage = self.verdict.usage
        return usage.tokens_in, usage.tokens_cached, usage.tokens_out


A_WORK = Work(
    program="/bin/engine",
    prompt="Do it.",
    new_session="00000000-0000-4000-8000-000000000000",
    worktree="/work/tree",
    home="/work/home",
    now=NOON,
)


def a_work(**fields: object) -> Work:
    """Return work for an engine with these fields changed."""
    return msgspec.structs.replace(A_WORK, **fields)


def lines(engine: str, case: str, suffix: str) -> list[str]:
    """Return the lines of one recorded file; empty if it does not exist."""
    path = RECORDED / engine / f"{case}.{suffix}"
    return path.read_text().splitlines() if path.exists() else []


def replay(
    engine: Engine,
    case: str,
    exit_code: int,
    work: Work | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Replay:
    """Read a recording in order, stderr last."""
    reader = engine.reader(work or a_work())
    events: list[EngineEvent] = []
    for line in lines(engine.name, case, "stdout.jsonl"):
        events.extend(reader.read(line))
    for line in lines(engine.name, case, "stderr.txt"):
        events.extend(reader.read(line, stderr=True))
    return Replay(events, reader.end(exit_code, files or {}))


def recorded(engine: str, name: str) -> bytes:
    """Return the bytes of a recorded side file."""
    return (RECORDED / engine / name).read_bytes()
