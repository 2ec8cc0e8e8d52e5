"""Cline: its command line, and its output."""

import msgspec
import pytest

from gigafactory.engines.cline import CLINE
from gigafactory.engines.protocol.engine import Failure, FailureKind, Text, UsageUpdate
from tests.support.engine_replay import a_work, replay


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 1),
        ("auth", 1, "auth", (0, 0, 0), 0),
        ("rate-limit", 1, "rate_limit", (0, 0, 0), 0),
        ("overloaded", 1, "overloaded", (0, 0, 0), 0),
        ("server-error", 1, "server", (0, 0, 0), 0),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0),
        ("no-such-recording", -15, "killed", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str, exit_code: int, trouble: str | None, tokens: tuple[int, int, int], tool_calls: int
) -> None:
    heard = replay(CLINE, case, exit_code)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)


def test_success_reports_text_tools_model_and_usage() -> None:
    heard = replay(CLINE, "success", 0)
    assert heard.events_of(Text) == [
        Text("I will create the file."),
        Text("Done: hello.txt is created."),
    ]
    assert heard.tools == ["run_commands"]
    assert heard.verdict.text == "Done: hello.txt is created."
    usage = heard.verdict.usage
    assert (usage.model, usage.turns, usage.cost_nano_usd) == ("gpt-4o", 2, None)
    assert heard.events_of(UsageUpdate)[-1] == UsageUpdate(usage)


def test_success_reports_no_session() -> None:
    assert replay(CLINE, "success", 0).verdict.session is None


def test_failure_quotes_the_message_of_the_service() -> None:
    failure = replay(CLINE, "auth", 1).verdict.failure
    assert failure == Failure(FailureKind.AUTH, "Incorrect API key provided.")


@pytest.mark.parametrize(
    ("reason", "trouble"),
    [
        ("completed", None),
        ("aborted", FailureKind.KILLED),
        ("max_iterations", FailureKind.TURN_LIMIT),
        ("mistake_limit", FailureKind.CRASH),
        ("", FailureKind.NO_END),
    ],
)
def test_finish_reason_decides_the_outcome(reason: str, trouble: FailureKind | None) -> None:
    reader = CLINE.reader(a_work())
    result = {"type": "run_result", "finishReason": reason}
    list(reader.read(msgspec.json.encode(result).decode()))
    failure = reader.end(0, {}).failure
    assert (failure.kind if failure else None) == trouble


def test_cost_is_taken_from_the_final_result() -> None:
    reader = CLINE.reader(a_work())
    figures = {"inputTokens": 10, "cacheReadTokens": 2, "cacheWriteTokens": 3, "totalCost": 0.25}
    result = {"type": "run_result", "finishReason": "completed", "aggregateUsage": figures}
    list(reader.read(msgspec.json.encode(result).decode()))
    usage = reader.end(0, {}).usage
    assert (usage.tokens_in, usage.tokens_cached, usage.tokens_cache_write) == (5, 2, 3)
    assert usage.cost_nano_usd == 250_000_000


def test_library_warnings_are_not_the_failure_reason() -> None:
    reader = CLINE.reader(a_work())
    for line in ("Warning: AI SDK Warning System: x", "      at iX (chunk.js:1:2)", "No provider"):
        list(reader.read(line, stderr=True))
    assert reader.end(1, {}).failure == Failure(FailureKind.NO_END, "No provider")


def test_start_passes_model_provider_prompt_and_settings() -> None:
    start = CLINE.start(a_work(persona="Be Anna.", model="openai/gpt/x", yolo=True))
    assert start.argv == (
        *("/bin/engine", "--json", "--auto-approve", "true", "--provider", "openai"),
        *("--model", "gpt/x", "Do what the following text asks for."),
    )
    assert start.stdin == b"Be Anna.\n\n---\n\nDo it."
    settings = msgspec.json.decode(start.files[".gigafactory/cline.json"])
    assert settings == {"telemetryOptOut": True, "autoUpdateEnabled": False}
    assert start.env["CLINE_SESSION_BACKEND_MODE"] == "local"


def test_nothing_is_approved_without_yolo() -> None:
    arguments = CLINE.start(a_work(model="gpt")).argv
    assert arguments[1:-1] == ("--json", "--auto-approve", "false", "--model", "gpt")


def test_every_used_flag_is_in_the_checked_flags() -> None:
    start = CLINE.start(a_work(model="p/m", session="s", persona="p"))
    assert {argument for argument in start.argv if argument.startswith("-")} <= set(CLINE.flags)
