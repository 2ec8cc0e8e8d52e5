"""Aider: its command line, and its output."""

import pytest

from gigafactory.engines.aider import AIDER, LOG_FILE
from gigafactory.engines.protocol.engine import (
    EngineEvent,
    Failure,
    FailureKind,
    Retrying,
    Text,
    UsageUpdate,
)
from tests.support.engine_replay import Replay, a_work, lines, recorded

HEADER = "Repo-map: using 4096 tokens, auto refresh"
STARTED = b'{"event": "message_send_starting"}\n'
ANSWERED = b'{"event": "message_send", "properties": {"prompt_tokens": 7, "cost": 0}}\n'
EXITED = b'{"event": "exit"}\n'


def play(case: str, exit_code: int, log: bytes | None = None) -> Replay:
    reader = AIDER.reader(a_work(model="openai/gpt-4o"))
    events: list[EngineEvent] = []
    for line in lines("aider", case, "stdout.txt"):
        events.extend(reader.read(line))
    kept = recorded("aider", f"{case}.analytics.jsonl") if log is None else log
    return Replay(events, reader.end(exit_code, {LOG_FILE: kept}))


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "retries"),
    [
        ("success", 0, None, 0),
        ("auth", 0, "auth", 0),
        ("not-logged-in", 0, "auth", 0),
        ("billing", 0, "billing", 2),
        ("usage-limit", 0, "allowance", 2),
        ("rate-limit", 0, "rate_limit", 2),
        ("overloaded", 0, "overloaded", 2),
        ("server-error", 0, "server", 2),
        ("no-server", 0, "network", 2),
        ("killed-sigterm", -15, "killed", 0),
        ("killed-sigterm", 0, "no_end", 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_retries(
    case: str, exit_code: int, trouble: str | None, retries: int
) -> None:
    heard = play(case, exit_code)
    assert (heard.failure_kind, len(heard.events_of(Retrying))) == (trouble, retries)
    assert heard.tokens == ((0, 0, 0) if trouble else (900, 0, 30))


def test_streamed_output_gives_estimated_tokens() -> None:
    heard = play("success-streamed", 0)
    assert (heard.failure_kind, heard.tokens) == (None, (820, 0, 19))
    assert heard.tools == []


def test_successful_run_reports_text_model_turns_and_cost() -> None:
    verdict = play("success", 0).verdict
    assert verdict.text.startswith("I will create the file.")
    assert "Tokens:" not in verdict.text
    assert verdict.session is None
    usage = verdict.usage
    assert (usage.model, usage.turns, usage.cost_nano_usd) == ("openai/gpt-4o", 1, 2_550_000)


def test_wrapped_error_message_is_joined() -> None:
    heard = play("rate-limit", 0)
    message = (
        "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached."
        " Please try again in 1s."
    )
    failure = Failure(FailureKind.RATE_LIMIT, message)
    assert heard.verdict.failure == failure
    assert heard.events_of(Retrying)[0] == Retrying(failure)


def test_status_lines_are_not_reported_as_text() -> None:
    spoken = [event.text for event in play("success", 0).events_of(Text) if isinstance(event, Text)]
    assert spoken[0] == "I will create the file."
    assert not [line for line in spoken if "HTTPSConnectionPool" in line]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("Tokens: 1.2k sent, 30 received. Cost: $0.0026 message, $0.0026 session.", (1200, 30)),
        ("Tokens: 1.5M sent, 2k cache hit, 12k received.", (1_500_000, 12_000)),
    ],
)
def test_rounded_token_counts_are_reported_while_it_runs(
    line: str, tokens: tuple[int, int]
) -> None:
    reader = AIDER.reader(a_work())
    list(reader.read(HEADER))
    [event] = reader.read(line)
    assert isinstance(event, UsageUpdate)
    assert (event.usage.tokens_in, event.usage.tokens_out) == tokens


@pytest.mark.parametrize(
    ("log", "exit_code", "trouble"),
    [
        (STARTED + ANSWERED + EXITED, 0, None),
        (STARTED + ANSWERED + EXITED, -15, None),
        (STARTED + ANSWERED, -15, FailureKind.KILLED),
        (STARTED + ANSWERED + STARTED + EXITED, 0, FailureKind.NO_END),
        (EXITED, 0, FailureKind.NO_END),
        (b"", 0, FailureKind.NO_END),
    ],
)
def test_analytics_log_decides_success_or_failure(
    log: bytes, exit_code: int, trouble: FailureKind | None
) -> None:
    assert play("no-such-recording", exit_code, log).failure_kind == trouble


def test_model_without_a_price_has_no_metered_cost() -> None:
    usage = play("no-such-recording", 0, STARTED + ANSWERED + EXITED).verdict.usage
    assert (usage.tokens_in, usage.turns, usage.cost_nano_usd) == (7, 1, None)


def test_rounded_token_counts_are_used_without_a_log() -> None:
    reader = AIDER.reader(a_work())
    for line in (HEADER, "Tokens: 5 sent, 3 received."):
        list(reader.read(line))
    usage = reader.end(0, {}).usage
    assert (usage.tokens_in, usage.tokens_out, usage.turns) == (5, 3, 1)


def test_start_passes_prompt_file_model_and_log() -> None:
    start = AIDER.start(a_work(persona="Be Anna.", model="openai/m", yolo=True))
    assert start.argv[1] == "--message-file=/work/home/.gigafactory/prompt.md"
    assert start.argv[-1] == "--model=openai/m"
    assert "--analytics-log=/work/home/.gigafactory/aider.jsonl" in start.argv
    assert start.stdin == b""
    assert start.files == {
        ".gigafactory/prompt.md": b"Be Anna.\n\n---\n\nDo it.",
        ".gigafactory/aider.jsonl": b"",
    }
    assert start.side_files == (".gigafactory/aider.jsonl",)


@pytest.mark.parametrize("yolo", [True, False])
def test_shell_commands_are_suggested_only_with_yolo(*, yolo: bool) -> None:
    start = AIDER.start(a_work(yolo=yolo))
    assert ("--no-suggest-shell-commands" in start.argv) is not yolo


def test_every_used_flag_is_in_the_checked_flags() -> None:
    given = {argument.split("=")[0] for argument in AIDER.start(a_work(model="m")).argv[1:]}
    assert given <= set(AIDER.flags)
