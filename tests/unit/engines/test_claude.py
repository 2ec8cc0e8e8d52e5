"""Claude Code: its command line, and its output."""

from datetime import UTC, datetime

import msgspec
import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.claude import CLAUDE, PERSONA_FILE
from gigafactory.engines.protocol.engine import Retrying, SessionStarted, UsageUpdate
from tests.support.engine_replay import a_work, recorded, replay

SESSION_FILE = ".claude/projects/-repo/ebb3b7fa-f310-450e-8d30-6d4a718c01dc.jsonl"


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tools"),
    [
        ("success", 0, None, (1500, 1000, 52), ["Write"]),
        ("success-partial-messages", 0, None, (1500, 1000, 52), ["Bash"]),
        ("success-with-side-call", 0, None, (2700, 1000, 92), ["Write"]),
        ("permission-denied", 0, None, (1500, 1000, 52), ["Write"]),
        ("allowance-warning", 0, None, (1200, 0, 40), []),
        ("stdin-left-open", 0, None, (1500, 1000, 52), ["Write"]),
        ("flaky-then-success", 0, None, (2400, 0, 80), ["Bash"]),
        ("stream-cut-then-success", 0, None, (2400, 0, 80), ["Bash"]),
        ("hang-then-success", 0, None, (2400, 0, 80), ["Bash"]),
        ("resumed-after-sigterm", 0, None, (2400, 0, 80), ["Bash"]),
        ("steered-over-stdin", 0, None, (4800, 0, 160), ["Bash", "Bash", "Bash"]),
        ("auth", 1, "auth", (0, 0, 0), []),
        ("auth-default-retries", 1, "auth", (0, 0, 0), []),
        ("not-logged-in", 1, "auth", (0, 0, 0), []),
        ("billing", 1, "billing", (0, 0, 0), []),
        ("rate-limit", 1, "rate_limit", (0, 0, 0), []),
        ("usage-limit-api-key", 1, "rate_limit", (0, 0, 0), []),
        ("usage-limit-subscription", 1, "allowance", (0, 0, 0), []),
        ("overloaded", 1, "overloaded", (0, 0, 0), []),
        ("server-error", 1, "server", (0, 0, 0), []),
        ("no-server", 1, "network", (0, 0, 0), []),
        ("unknown-model", 1, "crash", (0, 0, 0), []),
        ("max-turns", 1, "turn_limit", (60000, 0, 6000), ["Bash", "Bash", "Bash"]),
        ("max-budget", 1, "budget_limit", (60000, 0, 6000), ["Bash", "Bash", "Bash"]),
        ("killed-sigint", 1, "killed", (2400, 0, 80), ["Bash", "Bash"]),
        ("killed-sigkill", -9, "killed", (2400, 0, 2), ["Bash", "Bash"]),
        ("resume-unknown-id", 1, "unknown_session", (0, 0, 0), []),
        ("refused-as-root", 1, "permission", (0, 0, 0), []),
        ("missing-verbose", 1, "no_end", (0, 0, 0), []),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tools(
    case: str,
    exit_code: int,
    trouble: str | None,
    tokens: tuple[int, int, int],
    tools: list[str],
) -> None:
    heard = replay(CLAUDE, case, exit_code)
    assert (heard.failure_kind, heard.tokens, heard.tools) == (trouble, tokens, tools)


def test_success_reports_session_model_cost_and_final_text() -> None:
    heard = replay(CLAUDE, "success", 0)
    session = "fc1e9180-4167-497c-9baa-39f48ce8e2c5"
    assert heard.events_of(SessionStarted) == [SessionStarted(session)]
    assert heard.verdict.session == session
    assert heard.verdict.text == "Done: hello.txt is created."
    usage = heard.verdict.usage
    assert usage.model == "claude-sonnet-4-5"
    assert (usage.cost_nano_usd, usage.turns) == (5_580_000, 2)


def test_usage_is_reported_while_it_runs() -> None:
    used = [
        e.usage
        for e in replay(CLAUDE, "success-partial-messages", 0).events
        if type(e) is UsageUpdate
    ]
    assert [(u.tokens_in, u.tokens_cached, u.tokens_out) for u in used] == [
        (1200, 0, 40),
        (1500, 1000, 52),
        (1500, 1000, 52),
    ]


def test_usage_of_a_killed_run_is_read_from_the_session_file() -> None:
    files = {SESSION_FILE: recorded("claude", "killed-sigterm.session-file.jsonl")}
    heard = replay(CLAUDE, "killed-sigterm", 143, files=files)
    assert (heard.failure_kind, heard.tokens) == ("killed", (2400, 0, 80))
    assert heard.verdict.usage.cost_nano_usd is None
    assert heard.verdict.session == "ebb3b7fa-f310-450e-8d30-6d4a718c01dc"


def test_earlier_entries_of_the_session_file_are_not_counted_again() -> None:
    files = {SESSION_FILE: recorded("claude", "killed-sigterm.session-file.jsonl")}
    later = a_work(now=datetime(2026, 11, 16, tzinfo=UTC), session="s")
    heard = replay(CLAUDE, "no-such-recording", -15, later, files)
    assert (heard.failure_kind, heard.tokens) == ("killed", (0, 0, 0))


@pytest.mark.parametrize("before", [2400, 2300])
def test_totals_of_a_whole_session_are_counted_once(before: int) -> None:
    earlier = Usage(tokens_in=before, tokens_out=80, cost_nano_usd=8_400_000, turns=2)
    work = a_work(session="fc1e9180-4167-497c-9baa-39f48ce8e2c6", session_usage=earlier)
    verdict = replay(CLAUDE, "resumed-session-totals", 0, work).verdict
    used = verdict.usage
    assert (used.tokens_in, used.tokens_out, used.turns) == (4800 - before, 80, 2)
    assert used.cost_nano_usd == 8_400_000
    total = verdict.session_usage
    assert total is not None
    assert (total.tokens_in, total.cost_nano_usd) == (4800, 16_800_000)


def test_totals_of_one_start_are_added_to_those_of_the_session() -> None:
    earlier = Usage(tokens_in=2400, tokens_out=80, cost_nano_usd=8_400_000)
    work = a_work(session="a-session", session_usage=earlier)
    verdict = replay(CLAUDE, "resumed-after-sigterm", 0, work).verdict
    assert verdict.usage.tokens_in == 2400
    assert verdict.session_usage is not None
    assert verdict.session_usage.tokens_in == 4800


def test_a_budget_of_a_resumed_session_is_on_top_of_what_it_has_cost() -> None:
    earlier = Usage(cost_nano_usd=8_400_000)
    work = a_work(session="a-session", session_usage=earlier, usd_nanos_max=20_000_000)
    assert "--max-budget-usd=0.028400000" in CLAUDE.start(work).argv


def test_exhausted_allowance_reports_its_reset_time() -> None:
    failure = replay(CLAUDE, "usage-limit-subscription", 1).verdict.failure
    assert failure is not None
    assert failure.until == datetime(2026, 11, 15, 19, 37, 11, tzinfo=UTC)


def test_retries_of_the_engine_are_reported() -> None:
    kinds = [
        e.failure.kind
        for e in replay(CLAUDE, "flaky-then-success", 0).events
        if type(e) is Retrying
    ]
    assert kinds == ["overloaded", "overloaded", "rate_limit"]


def test_missing_result_is_reported_as_no_end() -> None:
    assert replay(CLAUDE, "no-such-recording", 0).failure_kind == "no_end"


def test_unknown_session_is_not_offered_for_resuming() -> None:
    assert replay(CLAUDE, "resume-unknown-id", 1).verdict.session is None


def test_prompt_and_persona_are_not_arguments() -> None:
    start = CLAUDE.start(a_work(prompt="SECRET PLAN", persona="SECRET PERSONA", runs_as_root=True))
    assert "SECRET" not in " ".join(start.argv)
    assert start.stdin == b"SECRET PLAN"
    assert not start.stdin_open
    assert start.files == {PERSONA_FILE: b"SECRET PERSONA"}
    assert f"--append-system-prompt-file=/work/home/{PERSONA_FILE}" in start.argv
    assert start.env["IS_SANDBOX"] == "1"


def test_default_start_accepts_edits_and_opens_a_session() -> None:
    start = CLAUDE.start(a_work())
    assert start.argv == (
        "/bin/engine",
        "--print",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--setting-sources=user",
        "--permission-mode=acceptEdits",
        "--session-id=00000000-0000-4000-8000-000000000000",
    )
    assert "IS_SANDBOX" not in start.env


def test_yolo_start_resumes_with_model_and_budget() -> None:
    start = CLAUDE.start(
        a_work(yolo=True, session="s-1", model="opus", usd_nanos_max=1_250_000_000)
    )
    assert start.argv[6:] == (
        "--dangerously-skip-permissions",
        "--resume=s-1",
        "--model=opus",
        "--max-budget-usd=1.250000000",
    )
    assert start.side_files == (".claude/projects/*/s-1.jsonl",)


def test_fleet_tools_are_configured_with_secrets_passed_by_name() -> None:
    start = CLAUDE.start(a_work(fleet_tools="/opt/aq", persona="You plan."))
    assert f"--mcp-config={a_work().home}/.gigafactory/tools.json" in start.argv
    assert "--allowedTools=mcp__gigafactory" in start.argv
    result = msgspec.json.decode(start.files[".gigafactory/tools.json"])["mcpServers"][
        "gigafactory"
    ]
    assert (result["command"], result["args"]) == ("/opt/aq", ["mcp"])
    assert result["env"]["AQ_FLEET_TOKEN"] == "${AQ_FLEET_TOKEN}"
    assert set(start.files) == {".gigafactory/tools.json", ".gigafactory/persona.md"}
    assert not [word for word in CLAUDE.start(a_work()).argv if "mcp" in word]
