"""Qwen Code: its command line, and its output."""

import msgspec
import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import SessionStarted, UsageUpdate
from gigafactory.engines.qwen import QWEN
from tests.support.engine_replay import a_work, replay


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "turns", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 2, 1),
        ("flaky-then-success", 0, None, (2400, 0, 80), 2, 1),
        ("stream-cut-then-success", 0, None, (2400, 0, 80), 2, 1),
        ("auth", 0, "auth", (0, 0, 0), 0, 0),
        ("server-error", 0, "server", (0, 0, 0), 0, 0),
        ("not-logged-in", 1, "auth", (0, 0, 0), 0, 0),
        ("resume-unknown-id", 1, "unknown_session", (0, 0, 0), 0, 0),
        ("max-turns", 53, "turn_limit", (60000, 0, 6000), 3, 3),
        ("killed-sigterm-group", -15, "killed", (2400, 0, 80), 2, 2),
        ("sigterm-to-launcher", -15, "killed", (2400, 0, 80), 2, 2),
        ("rate-limit-still-retrying-at-300s", -9, "killed", (0, 0, 0), 0, 0),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0, 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str,
    exit_code: int,
    trouble: str | None,
    tokens: tuple[int, int, int],
    turns: int,
    tool_calls: int,
) -> None:
    heard = replay(QWEN, case, exit_code)
    assert (heard.failure_kind, heard.tokens, heard.verdict.usage.turns) == (trouble, tokens, turns)
    assert len(heard.tools) == tool_calls
    assert heard.verdict.usage.cost_nano_usd is None


def test_success_reports_session_and_model() -> None:
    heard = replay(QWEN, "success", 0)
    assert heard.events_of(SessionStarted) == [
        SessionStarted("219ee06b-3564-432f-8fa7-288eea640c35")
    ]
    assert heard.verdict.usage.model == "qwen3-coder-plus"
    assert heard.verdict.text == "Done: hello.txt is created."


def test_usage_is_reported_while_it_runs() -> None:
    used = [e.usage.tokens_in for e in replay(QWEN, "success", 0).events if type(e) is UsageUpdate]
    assert used == [1200, 1500]


def test_resumed_session_counts_only_the_usage_of_this_start() -> None:
    before = Usage(tokens_in=2400, tokens_out=80)
    heard = replay(QWEN, "resumed-after-sigterm", 0, a_work(session="s", session_usage=before))
    assert heard.tokens == (3600, 0, 120)
    assert heard.verdict.session_usage == Usage(tokens_in=6000, tokens_out=200)


def test_resumed_session_without_a_known_total_sums_its_calls() -> None:
    heard = replay(QWEN, "resumed-after-sigterm", 0, a_work(session="s"))
    assert heard.tokens == (3600, 0, 120)
    assert heard.verdict.session_usage is None


def test_killed_session_adds_its_usage_to_the_known_total() -> None:
    before = Usage(tokens_in=100, tokens_out=10)
    work = a_work(session="s", session_usage=before)
    heard = replay(QWEN, "killed-sigterm-group", -15, work)
    assert heard.tokens == (2400, 0, 80)
    assert heard.verdict.session_usage == Usage(tokens_in=2500, tokens_out=90)


def test_persona_and_prompt_go_through_stdin() -> None:
    start = QWEN.start(a_work(prompt="SECRET PLAN", persona="SECRET PERSONA"))
    assert "SECRET" not in " ".join(start.argv)
    assert start.stdin == b"SECRET PERSONA\n\n---\n\nSECRET PLAN"
    assert b'"maxRetries":1' in start.files[".qwen/settings.json"]


def test_settings_of_the_repo_are_ignored() -> None:
    settings = msgspec.json.decode(QWEN.start(a_work()).files[".qwen/settings.json"])
    assert set(QWEN.credentials) < set(settings["advanced"]["excludedEnvVars"])
    assert QWEN.repo_settings == (".qwen",)


def test_default_start_accepts_edits() -> None:
    assert QWEN.start(a_work()).argv == (
        "/bin/engine",
        "--output-format=stream-json",
        "--auth-type=openai",
        "--approval-mode=auto-edit",
        "--session-id=00000000-0000-4000-8000-000000000000",
    )


def test_yolo_start_resumes_its_session() -> None:
    argv = QWEN.start(a_work(yolo=True, session="s-1", model="m")).argv
    assert argv[3:] == ("--approval-mode=yolo", "--model=m", "--resume=s-1")
