"""OpenCode: its command line, and its output."""

from datetime import UTC, datetime

import msgspec
import pytest

from gigafactory.engines.opencode import OPENCODE
from gigafactory.engines.protocol.engine import (
    Failure,
    FailureKind,
    Retrying,
    SessionStarted,
    Text,
    UsageUpdate,
)
from tests.support.engine_replay import a_work, replay


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 1),
        ("success-without-auto", 0, None, (1500, 1000, 52), 1),
        ("success-anthropic-provider", 0, None, (1500, 1000, 52), 1),
        ("flaky-then-success", 0, None, (2400, 0, 80), 1),
        ("resumed-after-sigterm", 0, None, (2400, 0, 80), 1),
        ("auth", 1, "auth", (0, 0, 0), 0),
        ("billing", 1, "billing", (0, 0, 0), 0),
        ("rate-limit", 1, "rate_limit", (0, 0, 0), 0),
        ("overloaded", 1, "overloaded", (0, 0, 0), 0),
        ("server-error", 1, "server", (0, 0, 0), 0),
        ("unknown-model", 1, "crash", (0, 0, 0), 0),
        ("killed-sigterm", -15, "killed", (1200, 0, 40), 1),
        ("killed-sigterm", 0, "no_end", (1200, 0, 40), 1),
        ("killed-sigint", -2, "killed", (1200, 0, 40), 1),
        ("resume-unknown-id", 1, "unknown_session", (0, 0, 0), 0),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str, exit_code: int, trouble: str | None, tokens: tuple[int, int, int], tool_calls: int
) -> None:
    heard = replay(OPENCODE, case, exit_code)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)


def test_success_reports_session_text_tools_model_and_usage() -> None:
    heard = replay(OPENCODE, "success", 0, a_work(model="fake/fake-model"))
    assert heard.events_of(SessionStarted) == [SessionStarted("ses_e1f415006ffev8qW6wL1KVuGbS")]
    assert heard.events_of(Text) == [
        Text("I will create the file."),
        Text("Done: hello.txt is created."),
    ]
    assert heard.tools == ["write"]
    assert heard.verdict.text == "Done: hello.txt is created."
    assert heard.verdict.session == "ses_e1f415006ffev8qW6wL1KVuGbS"
    usage = heard.verdict.usage
    assert (usage.model, usage.turns, usage.cost_nano_usd) == ("fake/fake-model", 2, 5_580_000)
    assert heard.events_of(UsageUpdate)[-1] == UsageUpdate(usage)


def test_rate_limit_ends_after_the_retry_after_of_the_service() -> None:
    failure = replay(OPENCODE, "rate-limit", 1).verdict.failure
    assert failure is not None
    assert failure.until == datetime(2026, 11, 15, 18, 51, 36, tzinfo=UTC)


@pytest.mark.parametrize("wait", ["-1", "soon", "9" * 40, "", "१२"])
def test_rate_limit_with_an_invalid_retry_after_has_no_end(wait: str) -> None:
    data = {"message": "Rate limit", "statusCode": 429, "responseHeaders": {"retry-after": wait}}
    result = {"type": "error", "timestamp": 1794768695605, "error": {"data": data}}
    reader = OPENCODE.reader(a_work())
    assert not list(reader.read(msgspec.json.encode(result).decode()))
    assert reader.end(1, {}).failure == Failure(FailureKind.RATE_LIMIT, "Rate limit")


def test_retries_are_read_from_the_log() -> None:
    heard = replay(OPENCODE, "rate-limit-with-logs", 1)
    result = Failure(FailureKind.RATE_LIMIT, "Rate limit reached. Please try again in 1s.")
    assert heard.events_of(Retrying) == [Retrying(result)] * 6


def test_model_without_a_price_has_no_metered_cost() -> None:
    reader = OPENCODE.reader(a_work())
    tokens = {"input": 5, "output": 1, "reasoning": 2, "cache": {"read": 3, "write": 4}}
    step = {"type": "step_finish", "part": {"reason": "stop", "cost": 0, "tokens": tokens}}
    list(reader.read(msgspec.json.encode(step).decode()))
    usage = reader.end(0, {}).usage
    assert usage.cost_nano_usd is None
    assert (usage.tokens_in, usage.tokens_cached, usage.tokens_cache_write) == (5, 3, 4)
    assert (usage.tokens_out, usage.tokens_reasoning) == (1, 2)


def test_start_passes_prompt_persona_model_and_session() -> None:
    work = a_work(persona="Be Anna.", model="openai/m", session="ses_1", yolo=True)
    start = OPENCODE.start(work)
    assert start.argv == (
        *("/bin/engine", "run", "--format=json", "--print-logs", "--log-level=WARN"),
        *("--auto", "--model=openai/m", "--session=ses_1"),
    )
    assert start.stdin == b"Do it."
    assert not start.stdin_open
    assert start.files[".gigafactory/persona.md"] == b"Be Anna."
    config = msgspec.json.decode(start.files[".gigafactory/opencode.json"])
    assert config["instructions"] == ["/work/home/.gigafactory/persona.md"]
    assert start.env["OPENCODE_CONFIG"] == "/work/home/.gigafactory/opencode.json"


def test_settings_of_the_repo_are_ignored() -> None:
    assert OPENCODE.start(a_work()).env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert OPENCODE.repo_settings == ("opencode.json", "opencode.jsonc", ".opencode")


def test_default_start_approves_nothing_and_names_no_persona() -> None:
    start = OPENCODE.start(a_work())
    assert "--auto" not in start.argv
    config = msgspec.json.decode(start.files[".gigafactory/opencode.json"])
    assert config == {"autoupdate": False, "share": "disabled"}


def test_every_used_flag_is_in_the_checked_flags() -> None:
    start = OPENCODE.start(a_work(model="m", session="s", yolo=True))
    given = {argument.split("=")[0] for argument in start.argv if argument.startswith("-")}
    assert given <= set(OPENCODE.flags)
