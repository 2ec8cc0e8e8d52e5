"""Pi: its command line, and its output."""

from collections.abc import Mapping

import msgspec
import pytest

from gigafactory.engines.pi import PI
from gigafactory.engines.protocol.engine import (
    Failure,
    FailureKind,
    Retrying,
    SessionStarted,
    UsageUpdate,
)
from tests.support.engine_replay import a_work, replay


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 1),
        ("resumed-after-sigterm", 0, None, (2400, 0, 80), 1),
        ("auth", 0, "auth", (0, 0, 0), 0),
        ("rate-limit", 0, "rate_limit", (0, 0, 0), 0),
        ("overloaded", 0, "overloaded", (0, 0, 0), 0),
        ("killed-sigterm", 143, "killed", (2400, 0, 80), 2),
        ("killed-sigint", -2, "killed", (2400, 0, 80), 2),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str, exit_code: int, trouble: str | None, tokens: tuple[int, int, int], tool_calls: int
) -> None:
    heard = replay(PI, case, exit_code)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)


def test_success_reports_session_text_tools_model_and_usage() -> None:
    heard = replay(PI, "success", 0)
    assert heard.events_of(SessionStarted) == [
        SessionStarted("01a1e0c3-952c-76ff-a050-3b97c95fc342")
    ]
    assert heard.tools == ["bash"]
    assert heard.verdict.text == "Done: hello.txt is created."
    usage = heard.verdict.usage
    assert (usage.model, usage.turns, usage.cost_nano_usd) == ("fake-model", 2, 5_580_000)
    assert heard.events_of(UsageUpdate)[-1] == UsageUpdate(usage)


def test_failed_calls_are_no_turns_and_retries_are_reported() -> None:
    heard = replay(PI, "overloaded", 0)
    message = "503 Our servers are currently overloaded. Please try again later."
    assert heard.events_of(Retrying) == [Retrying(Failure(FailureKind.OVERLOADED, message))] * 3
    assert heard.verdict.usage.turns == 0


def said(*events: Mapping[str, object]) -> list[str]:
    return [msgspec.json.encode(event).decode() for event in events]


@pytest.mark.parametrize(
    ("reason", "trouble"),
    [("stop", None), ("length", None), ("aborted", FailureKind.KILLED), ("", FailureKind.NO_END)],
)
def test_last_agent_message_decides_the_outcome(reason: str, trouble: FailureKind | None) -> None:
    reader = PI.reader(a_work())
    failed = {"type": "agent_end", "messages": [{"stopReason": "error", "errorMessage": "500"}]}
    again = {"type": "agent_end", "messages": [{"stopReason": reason}]}
    for line in said(failed, {"type": "agent_start"}, again):
        assert not list(reader.read(line))
    failure = reader.end(0, {}).failure
    assert (failure.kind if failure else None) == trouble


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("No session found matching '01a1'", FailureKind.UNKNOWN_SESSION),
        ("No API key found for anthropic.", FailureKind.AUTH),
        ("Something else", FailureKind.NO_END),
    ],
)
def test_failure_before_the_start_is_read_from_stderr(line: str, trouble: FailureKind) -> None:
    reader = PI.reader(a_work())
    assert not list(reader.read(line, stderr=True))
    assert reader.end(1, {}).failure == Failure(trouble, line)


def test_restarted_agent_has_not_ended() -> None:
    reader = PI.reader(a_work())
    ended = {"type": "agent_end", "messages": [{"stopReason": "stop"}]}
    for line in said(ended, {"type": "agent_start"}):
        list(reader.read(line))
    failure = reader.end(-15, {}).failure
    assert failure is not None
    assert failure.kind is FailureKind.KILLED


def test_start_passes_prompt_persona_model_and_session() -> None:
    start = PI.start(a_work(persona="Be Anna.", model="openai/m", session="s-1", yolo=True))
    assert start.argv == (
        *("/bin/engine", "--print", "--mode", "json", "--model", "openai/m", "--session", "s-1"),
        *("--append-system-prompt", "/work/home/.gigafactory/persona.md"),
    )
    assert start.stdin == b"Do it."
    assert start.files[".gigafactory/persona.md"] == b"Be Anna."
    settings = msgspec.json.decode(start.files[".pi/agent/settings.json"])
    assert settings["retry"] == {"provider": {"maxRetries": 0}}
    assert start.env == {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


def test_shell_is_available_only_with_yolo() -> None:
    start = PI.start(a_work())
    assert start.argv[-2:] == ("--tools", "read,edit,write,grep,find,ls")
    assert list(start.files) == [".pi/agent/settings.json"]


def test_every_used_flag_is_in_the_checked_flags() -> None:
    for yolo in (False, True):
        start = PI.start(a_work(model="m", session="s", persona="p", yolo=yolo))
        assert {argument for argument in start.argv if argument.startswith("-")} <= set(PI.flags)
