"""Gemini CLI: its command line, and its output."""

import msgspec
import pytest

from gigafactory.engines.gemini import GEMINI
from gigafactory.engines.protocol.engine import Retrying, SessionStarted
from tests.support.engine_replay import a_work, replay


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 1),
        ("flaky-then-success", 0, None, (2400, 0, 80), 1),
        ("stream-cut-then-success", 0, None, (2400, 0, 80), 1),
        ("sigterm-to-launcher-ignored", 0, None, (4800, 0, 160), 3),
        ("resumed-after-sigterm", 0, None, (3600, 0, 120), 2),
        ("auth", 145, "auth", (0, 0, 0), 0),
        ("not-logged-in", 41, "auth", (0, 0, 0), 0),
        ("billing", 173, "billing", (0, 0, 0), 0),
        ("rate-limit", 173, "rate_limit", (0, 0, 0), 0),
        ("usage-limit", 173, "allowance", (0, 0, 0), 0),
        ("overloaded", 247, "overloaded", (0, 0, 0), 0),
        ("server-error", 244, "server", (0, 0, 0), 0),
        ("max-turns", 53, "turn_limit", (60000, 0, 6000), 3),
        ("untrusted-folder", 55, "permission", (0, 0, 0), 0),
        ("resume-unknown-id", 42, "unknown_session", (0, 0, 0), 0),
        ("killed-sigterm-group", 0, "killed", (0, 0, 0), 2),
        ("killed-sigint-group", 0, "killed", (0, 0, 0), 2),
        ("killed-sigterm-group", -9, "killed", (0, 0, 0), 2),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0),
        ("no-such-recording", 53, "turn_limit", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str, exit_code: int, trouble: str | None, tokens: tuple[int, int, int], tool_calls: int
) -> None:
    heard = replay(GEMINI, case, exit_code)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)


def test_success_reports_session_and_model_without_a_cost() -> None:
    heard = replay(GEMINI, "success", 0)
    assert heard.events_of(SessionStarted) == [
        SessionStarted("ae610268-adf7-4b99-93d4-c6672c236284")
    ]
    assert heard.verdict.usage.model == "gemini-2.5-pro"
    assert heard.verdict.usage.cost_nano_usd is None
    assert heard.verdict.text == "Done: hello.txt is created."
    assert heard.tools == ["write_file"]


def test_message_in_pieces_is_joined() -> None:
    reader = GEMINI.reader(a_work())
    for piece in ("All ", "done."):
        line = {"type": "message", "role": "assistant", "content": piece, "delta": True}
        list(reader.read(msgspec.json.encode(line).decode()))
    assert reader.end(0, {}).text == "All done."


def test_thinking_tokens_are_part_of_the_output() -> None:
    reader = GEMINI.reader(a_work())
    stats = '{"total_tokens":175,"input_tokens":100,"input":60,"cached":40,"output_tokens":50}'
    list(reader.read(f'{{"type":"result","status":"success","stats":{stats}}}'))
    usage = reader.end(0, {}).usage
    assert (usage.tokens_out, usage.tokens_reasoning) == (75, 25)


def test_failure_without_a_message_is_classified_by_its_exit_code() -> None:
    reader = GEMINI.reader(a_work())
    list(reader.read('{"type":"result","status":"error"}'))
    failure = reader.end(503 - 256, {}).failure
    assert failure is not None
    assert failure.kind == "overloaded"


def test_retries_of_the_engine_are_reported() -> None:
    events = replay(GEMINI, "flaky-then-success", 0).events
    kinds = [e.failure.kind for e in events if type(e) is Retrying]
    assert kinds == ["overloaded", "overloaded", "rate_limit"]


def test_persona_and_prompt_go_through_stdin() -> None:
    start = GEMINI.start(a_work(prompt="SECRET PLAN", persona="SECRET PERSONA"))
    assert "SECRET" not in " ".join(start.argv)
    assert start.stdin == b"SECRET PERSONA\n\n---\n\nSECRET PLAN"
    assert start.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    settings = msgspec.json.decode(start.files[".gemini/settings.json"])
    assert settings["privacy"] == {"usageStatisticsEnabled": False}


def test_settings_of_the_repo_are_ignored() -> None:
    settings = msgspec.json.decode(GEMINI.start(a_work()).files[".gemini/settings.json"])
    assert settings["advanced"] == {"ignoreLocalEnv": True}
    assert GEMINI.repo_settings == (".gemini",)


def test_default_start_accepts_edits() -> None:
    assert GEMINI.start(a_work()).argv == (
        "/bin/engine",
        "--output-format=stream-json",
        "--approval-mode=auto_edit",
        "--session-id=00000000-0000-4000-8000-000000000000",
    )


def test_yolo_start_resumes_a_session_without_repeating_the_persona() -> None:
    work = a_work(yolo=True, session="s-1", model="m", persona="P", prompt="Go on")
    start = GEMINI.start(work)
    assert start.argv[2:] == ("--approval-mode=yolo", "--model=m", "--resume=s-1")
    assert start.stdin == b"Go on"
