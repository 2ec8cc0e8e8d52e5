"""The command engine: its start, its exit code and its usage line."""

import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.command import COMMAND
from gigafactory.engines.protocol.engine import EngineEvent, EngineVerdict, Text, UsageUpdate
from tests.support.engine_replay import a_work


def played(
    *said: str, exit_code: int = 0, stderr: str = ""
) -> tuple[list[EngineEvent], EngineVerdict]:
    reader = COMMAND.reader(a_work(model="m"))
    events = [event for line in said for event in reader.read(line)]
    events.extend(reader.read(stderr, stderr=True))
    return events, reader.end(exit_code, {})


def test_command_gets_the_prompt_through_stdin() -> None:
    start = COMMAND.start(a_work(prompt="SECRET PLAN", command="./agent --fast"))
    assert start.argv == ("/bin/engine", "-c", "--", "./agent --fast")
    assert start.stdin == b"SECRET PLAN"


def test_prompt_is_the_script_when_no_command_is_given() -> None:
    start = COMMAND.start(a_work(prompt="make all", persona="You are kind."))
    assert (start.argv, start.stdin) == (("/bin/engine", "-s"), b"make all")


def test_last_usage_line_counts() -> None:
    events, verdict = played(
        "working",
        '{"usage": {"tokensIn": 1, "model": "x"}}',
        '{"usage": {"tokensIn": 10, "tokensOut": 5, "tokensCached": 2, "costUsd": 0.25,'
        ' "model": "x", "turns": 3, "toolCalls": 4}}',
        '{"other": 1}',
    )
    expected = Usage(
        model="x",
        tokens_in=10,
        tokens_out=5,
        tokens_cached=2,
        cost_nano_usd=250_000_000,
        turns=3,
        tool_calls=4,
    )
    assert verdict.usage == expected
    assert [type(event) for event in events] == [Text, UsageUpdate, UsageUpdate, Text]
    assert verdict.text == 'working\n{"other": 1}'


@pytest.mark.parametrize(
    "usage",
    ['{"tokensIn": -1, "costUsd": -2}', '{"tokensIn": 1e99, "costUsd": "x"}', '{"tokensIn": true}'],
)
def test_invalid_usage_figures_count_as_absent(usage: str) -> None:
    _, verdict = played(f'{{"usage": {usage}}}')
    assert verdict.usage == Usage(model="m")


@pytest.mark.parametrize(
    ("exit_code", "trouble"), [(0, None), (1, "crash"), (-15, "killed"), (137, "killed")]
)
def test_exit_code_decides_the_outcome(exit_code: int, trouble: str | None) -> None:
    _, verdict = played("half done", exit_code=exit_code, stderr="no such file")
    assert (verdict.failure.kind if verdict.failure else None) == trouble


def test_failure_quotes_the_error_output() -> None:
    _, verdict = played("half done", exit_code=2, stderr="no such file")
    assert verdict.failure is not None
    assert verdict.failure.message == "exit 2: no such file"
