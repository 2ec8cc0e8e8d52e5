"""Any command: the prompt on stdin, its exit code, and JSON lines for usage."""

from collections.abc import Iterable, Mapping

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineVerdict,
    Failure,
    FailureKind,
    Start,
    Text,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import failure_without_result, shorten
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    nano_usd,
    parse_record,
    record_at,
    text,
)
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.tail import Tail


def _start(work: Work) -> Start:
    """Run the manifest's command with the prompt on stdin; without one, the body is the script."""
    if work.command is None:
        return Start(argv=(work.program, "-s"), stdin=work.prompt.encode())
    return Start(
        argv=(work.program, "-c", "--", work.command), stdin=prompt_with_persona(work).encode()
    )


class CommandReader:
    """Follows one start of a command."""

    def __init__(self, work: Work) -> None:
        self._usage = Usage(model=work.model)
        self._model = work.model
        self._stdout = Tail()
        self._stderr = Tail()

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """Read a line: usage replaces the previous one; every other line is output."""
        if stderr:
            self._stderr.add(line)
            return
        record = parse_record(line)
        if record is not None and (used := record_at(record, "usage")):
            self._usage = _usage(used, self._model)
            yield UsageUpdate(self._usage)
        elif line.strip():
            self._stdout.add(line)
            yield Text(line.rstrip())

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Exit code 0 is success."""
        return EngineVerdict(
            failure=self._failure(exit_code), text=str(self._stdout), usage=self._usage
        )

    def _failure(self, exit_code: int) -> Failure | None:
        if exit_code == 0:
            return None
        failure = failure_without_result(exit_code, "")
        if failure.kind is FailureKind.KILLED:
            return failure
        message = str(self._stderr) or str(self._stdout)
        return Failure(FailureKind.CRASH, shorten(f"exit {exit_code}: {message}"))


def _usage(used: Record, model: str | None) -> Usage:
    return Usage(
        model=text(used, "model") or model,
        tokens_in=count(used, "tokensIn"),
        tokens_cached=count(used, "tokensCached"),
        tokens_cache_write=count(used, "tokensCacheWrite"),
        tokens_out=count(used, "tokensOut"),
        tokens_reasoning=count(used, "tokensReasoning"),
        cost_nano_usd=nano_usd(used, "costUsd"),
        turns=count(used, "turns"),
        tool_calls=count(used, "toolCalls"),
    )


COMMAND = Engine(
    name="command",
    engine_class=None,
    programs=("/bin/sh",),
    version_argv=("-c", "exit 0"),
    help_argv=("-c", "exit 0"),
    start=_start,
    reader=CommandReader,
)
"""A shell command, or the job's body as a script."""
