"""What an engine is to us: how it is started, and what its output means. Data in, data out."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.domain.manifest.manifest import EngineClass


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What one start of an engine is for."""

    program: str
    """The executable, as it was found."""
    prompt: str
    """What to do; in a session that goes on, only what is new."""
    new_session: str
    """A fresh UUID for a session that begins, where the engine lets us choose."""
    worktree: str
    home: str
    """The job's own home, kept over its runs, so that sessions can be resumed."""
    now: datetime
    """When it starts: some engines name the reset of a limit by a local time of day."""
    persona: str | None = None
    model: str | None = None
    session: str | None = None
    """The session that goes on; None to begin one."""
    session_usage: Usage | None = None
    """What that session had used before, for engines that count over the whole session."""
    yolo: bool = False
    usd_nanos_max: int | None = None
    command: str | None = None
    """The manifest's `command`, for the engine of that name."""
    fleet_tools: str | None = None
    """The `aq` that serves the fleet to the agent (`aq mcp`); None where it has nothing to ask."""
    runs_as_root: bool = False
    """Whether it will run as root, which some engines refuse without a word more."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How to start it: the prompt goes in through stdin or a file, never as an argument."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    stdin_open: bool = False
    """Whether stdin stays open for what the reader has to say; else it is closed at once."""
    env: Mapping[str, str] = {}
    """Beside what the factory passes on. Never a secret."""
    files: Mapping[str, bytes] = {}
    """Files to write below the home first, by their relative paths."""
    side_files: tuple[str, ...] = ()
    """Globs below the home: what they match is given to the reader at the end."""


class Text(msgspec.Struct, frozen=True):
    """Something that the agent said."""

    text: str


class ToolCall(msgspec.Struct, frozen=True):
    """The agent used a tool."""

    name: str


class SessionStarted(msgspec.Struct, frozen=True):
    """The session has this id, by which it can be resumed."""

    id: str


class UsageUpdate(msgspec.Struct, frozen=True):
    """What this start has used so far."""

    usage: Usage


class FailureKind(StrEnum):
    """What kind of failure an engine has met."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    ALLOWANCE = "allowance"
    """The quota is used up until its reset."""
    OVERLOADED = "overloaded"
    SERVER = "server"
    NETWORK = "network"
    CONTEXT = "context"
    """The conversation is too long for the model."""
    PERMISSION = "permission"
    TURN_LIMIT = "turn_limit"
    BUDGET_LIMIT = "budget_limit"
    KILLED = "killed"
    NO_END = "no_end"
    """It ended without saying how."""
    UNKNOWN_SESSION = "unknown_session"
    CRASH = "crash"


class Failure(msgspec.Struct, frozen=True):
    """What went wrong, in the engine's words; `until` is when a limit ends, if it said so."""

    kind: FailureKind
    message: str
    until: datetime | None = None


class Retrying(msgspec.Struct, frozen=True):
    """The engine has met trouble and tries again by itself."""

    failure: Failure


class SendInput(msgspec.Struct, frozen=True):
    """What must be written to the engine's stdin now."""

    data: bytes
    closes_stdin: bool = False
    """Whether stdin is closed after it: the engine has no more to hear, and should end."""


EngineEvent = Text | ToolCall | SessionStarted | UsageUpdate | Retrying | SendInput


class EngineVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one start of an engine; an exit code alone proves nothing."""

    failure: Failure | None = None
    """None when the engine says that it is done."""
    text: str = ""
    """Its closing words."""
    session: str | None = None
    usage: Usage = Usage()
    """What this start has used."""
    session_usage: Usage | None = None
    """What the whole session has used by now, where the engine counts so: the next baseline."""


class EngineReader(Protocol):
    """Follows one start, line by line."""

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """What a line means; nothing for one that means nothing."""
        ...

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """What became of it: `exit_code` is negative for a signal; `files` are the side files."""
        ...


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent: the facts of its program, how it is started, and who follows a start."""

    name: str
    engine_class: EngineClass | None = "agentic-coder"
    """None for one that can be of any class."""
    programs: tuple[str, ...] = ()
    """Names under which its executable is looked for on PATH, the first one found wins."""
    version_argv: tuple[str, ...] = ("--version",)
    """Arguments that print its version, and call no model."""
    help_argv: tuple[str, ...] = ("--help",)
    """Arguments that print its flags, and call no model."""
    flags: tuple[str, ...] = ()
    """The flags that must be in what `help_argv` prints: one that is gone must not surprise us."""
    credentials: tuple[str, ...] = ()
    """Names of environment variables that carry its credentials, passed on from the factory."""
    repo_settings: tuple[str, ...] = ()
    """What a repo could have it run programs by, as paths in the repo: in the sandbox it finds
    nothing there."""
    stop_signals: tuple[str, ...] = ()
    """Signals by which it stops in an orderly way, before SIGTERM: ("SIGINT",) or ()."""
    start: Callable[[Work], Start]
    """The command for a piece of work."""
    reader: Callable[[Work], EngineReader]
    """Somebody who follows that start."""
