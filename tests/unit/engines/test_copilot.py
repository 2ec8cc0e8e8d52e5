"""Copilot CLI: its command line, its output and its files."""

import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.copilot import COPILOT
from gigafactory.engines.protocol.engine import Retrying, SessionStarted
from tests.support.engine_replay import RECORDED, Replay, a_work, recorded, replay

USAGE_FILE = "copilot-usage-00000000-0000-4000-8000-000000000000.json"


def played(case: str, exit_code: int, **fields: object) -> Replay:
    name = f"{case}.usage.json"
    known = (RECORDED / "copilot" / name).exists()
    files = {USAGE_FILE: recorded("copilot", name)} if known else {}
    return replay(COPILOT, case, exit_code, a_work(**fields), files)


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "turns", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 2, 1),
        ("permission-denied", 0, None, (1500, 1000, 52), 2, 1),
        ("flaky-then-success", 0, None, (2400, 0, 80), 2, 1),
        ("auth", 1, "auth", (0, 0, 0), 0, 0),
        ("not-logged-in", 1, "auth", (0, 0, 0), 0, 0),
        ("billing", 1, "billing", (0, 0, 0), 0, 0),
        ("rate-limit", 1, "rate_limit", (0, 0, 0), 0, 0),
        ("usage-limit", 1, "allowance", (0, 0, 0), 0, 0),
        ("overloaded", 1, "overloaded", (0, 0, 0), 0, 0),
        ("server-error", 1, "server", (0, 0, 0), 0, 0),
        ("killed-sigterm-group", -15, "killed", (2400, 0, 80), 2, 2),
        ("sigterm-to-launcher", -15, "killed", (0, 0, 0), 0, 2),
        ("resume-unknown-id", 1, "unknown_session", (0, 0, 0), 0, 0),
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
    heard = played(case, exit_code)
    assert (heard.failure_kind, heard.tokens, heard.verdict.usage.turns) == (trouble, tokens, turns)
    assert len(heard.tools) == tool_calls
    assert heard.verdict.usage.cost_nano_usd is None


def test_success_reports_session_and_model() -> None:
    heard = played("success", 0, new_session="65268a2e-6c95-4f41-b84d-7c7f5fdd4827")
    assert heard.events_of(SessionStarted) == [
        SessionStarted("65268a2e-6c95-4f41-b84d-7c7f5fdd4827")
    ]
    assert heard.verdict.usage.model == "gpt-5.4"
    assert heard.verdict.text == "Done: hello.txt is created."


def test_killed_session_can_be_resumed() -> None:
    heard = played("killed-sigterm-group", -15)
    assert heard.verdict.session == "00000000-0000-4000-8000-000000000000"


def test_resumed_session_counts_only_the_usage_of_this_start() -> None:
    before = Usage(tokens_in=2400, tokens_out=80, turns=2)
    heard = played("resumed-after-sigterm", 0, session="s", session_usage=before)
    assert (heard.tokens, heard.verdict.usage.turns) == ((2400, 0, 80), 2)
    assert heard.verdict.session_usage == Usage(tokens_in=4800, tokens_out=160, turns=4)


def test_resumed_session_without_a_known_total_counts_no_usage() -> None:
    heard = played("resumed-after-sigterm", 0, session="s")
    assert heard.tokens == (0, 0, 0)
    assert heard.verdict.session_usage == Usage(tokens_in=4800, tokens_out=160, turns=4)


def test_result_with_a_nonzero_exit_code_is_a_failure() -> None:
    reader = COPILOT.reader(a_work())
    list(reader.read('{"type":"result","exitCode":1}'))
    failure = reader.end(0, {}).failure
    assert failure is not None
    assert failure.kind == "crash"


def test_retries_of_the_engine_are_reported() -> None:
    kinds = [e.failure.kind for e in played("overloaded", 1).events if type(e) is Retrying]
    assert kinds == ["overloaded"] * 6


def test_persona_and_prompt_go_through_stdin() -> None:
    start = COPILOT.start(a_work(prompt="SECRET PLAN", persona="SECRET PERSONA"))
    assert "SECRET" not in " ".join(start.argv)
    assert start.stdin == b"SECRET PERSONA\n\n---\n\nSECRET PLAN"
    assert start.side_files == (USAGE_FILE,)


def test_default_start_allows_writing_and_asks_no_questions() -> None:
    assert COPILOT.start(a_work()).argv == (
        "/bin/engine",
        "--output-format=json",
        "--no-ask-user",
        "--no-auto-update",
        "--disable-client-telemetry",
        f"--usage-output-file=/work/home/{USAGE_FILE}",
        "--allow-tool=write",
        "--session-id=00000000-0000-4000-8000-000000000000",
    )


def test_yolo_start_resumes_its_session() -> None:
    argv = COPILOT.start(a_work(yolo=True, session="s-1", model="m")).argv
    assert argv[-3:] == ("--allow-all", "--model=m", "--resume=s-1")
