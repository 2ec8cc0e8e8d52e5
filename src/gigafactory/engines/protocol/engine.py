"""The engine protocol: how an engine is started, and what its output means; pure data."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.domain.manifest.manifest import EngineClass


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one engine start."""

    program: str
    """The executable that was detected."""
    prompt: str
    """The instructions; in a resumed session, only the new ones."""
    new_session: str
    """A new UUID for engines that accept a session id."""
    worktree: str
    home: str
    """The home folder of the job, kept across runs so that sessions can be resumed."""
    now: datetime
    """The start time: some engines report the reset of a limit as a local time of day."""
    persona: str | None = None
    model: str | None = None
    session: str | None = None
    """The session to resume; None to start one."""
    session_usage: Usage | None = None
    """Earlier usage of that session, for engines that count over the whole session."""
    yolo: bool = False
    usd_nanos_max: int | None = None
    command: str | None = None
    """The manifest's `command`, for the engine of that name."""
    fleet_tools: str | None = None
    """The `aq` program that gives the agent access to the fleet (`aq mcp`); None without access."""
    runs_as_root: bool = False
    """Whether it runs as root, which some engines refuse by default."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How to start an engine; the prompt goes through stdin or a file, never as an argument."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    stdin_open: bool = False
    """Whether stdin stays open for `SendInput` events; otherwise it is closed after `stdin`."""
    env: Mapping[str, str] = {}
    """Variables in addition to those that the factory passes on; never secrets."""
    files: Mapping[str, bytes] = {}
    """Files to write below the home before the start, by relative path."""
    side_files: tuple[str, ...] = ()
    """Globs below the home: matching files are passed to the reader at the end."""


class Text(msgspec.Struct, frozen=True):
    """Text from the agent."""

    text: str


class ToolCall(msgspec.Struct, frozen=True):
    """The agent called a tool."""

    name: str


class SessionStarted(msgspec.Struct, frozen=True):
    """The id of the session, for resuming it."""

    id: str


class UsageUpdate(msgspec.Struct, frozen=True):
    """Usage of this start so far."""

    usage: Usage


class FailureKind(StrEnum):
    """Classes of engine failures."""

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
    """The engine ended without a result."""
    UNKNOWN_SESSION = "unknown_session"
    CRASH = "crash"


class Failure(msgspec.Struct, frozen=True):
    """A failure, with the engine's message; `until` is when a limit resets, if known."""

    kind: FailureKind
    message: str
    until: datetime | None = None


class Retrying(msgspec.Struct, frozen=True):
    """The engine had a failure and retries by itself."""

    failure: Failure


class SendInput(msgspec.Struct, frozen=True):
    """Data to write to the engine's stdin."""

    data: bytes
    closes_stdin: bool = False
    """Whether to close stdin afterwards, so that the engine ends."""


EngineEvent = Text | ToolCall | SessionStarted | UsageUpdate | Retrying | SendInput


class EngineVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one engine start; an exit code alone proves nothing."""

    failure: Failure | None = None
    """None if the engine reports success."""
    text: str = ""
    """Its final message."""
    session: str | None = None
    usage: Usage = Usage()
    """Usage of this start."""
    session_usage: Usage | None = None
    """Usage of the whole session, if the engine counts so: the baseline of the next start."""


class EngineReader(Protocol):
    """Parses the output of one engine start, line by line."""

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """Return the events of a line."""
        ...

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Return the verdict; `exit_code` is negative for a signal, `files` are the side files."""
        ...


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent: its program, how to start it, and how to read its output."""

    name: str
    engine_class: EngineClass | None = "agentic-coder"
    """None if it can be of any class."""
    programs: tuple[str, ...] = ()
    """Names of its executable on PATH; the first one found is used."""
    version_argv: tuple[str, ...] = ("--version",)
    """Arguments that print its version without calling a model."""
    help_argv: tuple[str, ...] = ("--help",)
    """Arguments that print its flags without calling a model."""
    flags: tuple[str, ...] = ()
    """Flags that the help text must contain; detects incompatible versions."""
    credentials: tuple[str, ...] = ()
    """Environment variables with credentials, passed on from the factory."""
    repo_settings: tuple[str, ...] = ()
    """Paths in a repo that could make it run programs; they appear empty in the sandbox."""
    stop_signals: tuple[str, ...] = ()
    """Signals for an orderly stop, sent before SIGTERM, e.g. ("SIGINT",)."""
    start: Callable[[Work], Start]
    """Returns how to start it."""
    reader: Callable[[Work], EngineReader]
    """Returns the reader of that start."""
