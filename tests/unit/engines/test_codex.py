"""Codex: its command line, and its output."""

import tomllib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.codex import CODEX, reset_time
from gigafactory.engines.protocol.engine import Retrying, SessionStarted
from tests.support.engine_replay import NOON, a_work, recorded, replay

THREAD = "01a1e0c2-4c04-7b70-8f08-8a39603ced74"
ROLLOUT = f".codex/sessions/2026/11/15/rollout-2026-11-15T19-49-52-{THREAD}.jsonl"


@pytest.mark.parametrize(
    ("case", "exit_code", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, None, (1500, 1000, 52), 1),
        ("success-websocket-fallback", 0, None, (1500, 1000, 52), 1),
        ("success-code-mode", 0, None, (1500, 1000, 52), 1),
        ("success-unknown-model-metadata", 0, None, (1500, 1000, 52), 1),
        ("sandbox-workspace-write", 0, None, (1500, 1000, 52), 1),
        ("sandbox-read-only", 0, None, (1500, 1000, 52), 0),
        ("allowance-warning", 0, None, (1200, 0, 40), 0),
        ("flaky-then-success", 0, None, (2400, 0, 80), 1),
        ("stream-cut-then-success", 0, None, (2400, 0, 80), 1),
        ("auth", 1, "auth", (0, 0, 0), 0),
        ("missing-key", 1, "auth", (0, 0, 0), 0),
        ("billing", 1, "billing", (0, 0, 0), 0),
        ("rate-limit", 1, "rate_limit", (0, 0, 0), 0),
        ("usage-limit", 1, "allowance", (0, 0, 0), 0),
        ("overloaded", 1, "overloaded", (0, 0, 0), 0),
        ("server-error", 1, "server", (0, 0, 0), 0),
        ("killed-sigterm", -15, "killed", (0, 0, 0), 2),
        ("killed-sigint", 1, "killed", (0, 0, 0), 2),
        ("no-server", -9, "killed", (0, 0, 0), 0),
        ("model-never-answers", -9, "killed", (0, 0, 0), 1),
        ("stdin-left-open", -9, "killed", (0, 0, 0), 0),
        ("resume-unknown-id", 1, "unknown_session", (0, 0, 0), 0),
        ("not-a-git-repo", 1, "permission", (0, 0, 0), 0),
        ("no-such-recording", 0, "no_end", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str, exit_code: int, trouble: str | None, tokens: tuple[int, int, int], tool_calls: int
) -> None:
    heard = replay(CODEX, case, exit_code)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)
    assert heard.verdict.usage.cost_nano_usd is None


def test_success_reports_its_thread_and_the_requested_model() -> None:
    heard = replay(CODEX, "success", 0, a_work(model="gpt-5.5"))
    assert heard.events_of(SessionStarted) == [
        SessionStarted("01a1e0be-9fef-75a0-bcb7-5f7681ff98b4")
    ]
    assert heard.verdict.text == "Done: hello.txt is created."
    assert heard.verdict.usage.model == "gpt-5.5"
    assert heard.tools == ["command_execution"]


def test_resumed_thread_counts_only_the_usage_of_this_start() -> None:
    before = Usage(tokens_in=1500, tokens_cached=1000, tokens_out=52)
    heard = replay(CODEX, "resumed-after-success", 0, a_work(session="t", session_usage=before))
    assert heard.tokens == (1200, 0, 40)
    assert heard.verdict.session_usage == Usage(tokens_in=2700, tokens_cached=1000, tokens_out=92)


def test_total_below_the_known_one_gives_no_negative_usage() -> None:
    before = Usage(tokens_in=9_000_000, tokens_out=52)
    heard = replay(CODEX, "resumed-after-success", 0, a_work(session="t", session_usage=before))
    assert heard.tokens == (0, 1000, 40)


def test_usage_of_a_killed_run_is_read_from_the_rollout_file() -> None:
    files = {
        ROLLOUT: recorded("codex", "killed-sigterm.session-file.jsonl"),
        ROLLOUT.replace(THREAD, "another"): b'{"payload": {"type": "token_count"}}\n',
    }
    heard = replay(CODEX, "killed-sigterm", -15, files=files)
    assert (heard.failure_kind, heard.tokens) == ("killed", (1200, 0, 40))
    assert (heard.verdict.usage.turns, heard.verdict.session) == (1, THREAD)
    assert heard.verdict.session_usage == Usage(tokens_in=1200, tokens_out=40)


def test_earlier_usage_is_read_from_the_rollout_file_as_a_last_resort() -> None:
    rollout = b"".join(
        b'{"timestamp":"2026-11-%d","type":"event_msg","payload":{"type":"token_count","info":'
        b'{"total_token_usage":{"input_tokens":%d,"output_tokens":%d}}}}\n' % line
        for line in ((14, 1000, 10), (16, 1000, 10), (16, 1500, 30))
    ).replace(b'"2026-11-14"', b'"2026-11-14T00:00:00Z"')
    rollout = rollout.replace(b'"2026-11-16"', b'"2026-11-16T00:00:00Z"')
    heard = replay(
        CODEX, "killed-sigterm", -15, a_work(session=THREAD), {f"rollout-{THREAD}.jsonl": rollout}
    )
    assert (heard.tokens, heard.verdict.usage.turns) == ((500, 0, 20), 1)


def test_model_is_read_from_the_rollout_file_when_none_was_requested() -> None:
    line = b'{"type":"turn_context","payload":{"model":"gpt-6"}}\n'
    heard = replay(CODEX, "killed-sigterm", -15, files={f"rollout-{THREAD}.jsonl": line})
    assert heard.verdict.usage.model == "gpt-6"


def test_limit_reset_uses_the_local_time_of_the_engine() -> None:
    east = timezone(timedelta(hours=2))
    work = a_work(now=NOON.astimezone(east))
    failure = replay(CODEX, "usage-limit", 1, work).verdict.failure
    assert failure is not None
    assert failure.until == datetime(2026, 11, 15, 18, 44, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("try again at 8:44 PM.", datetime(2026, 11, 15, 20, 44, tzinfo=UTC)),
        ("try again at 11:59 AM.", datetime(2026, 11, 16, 11, 59, tzinfo=UTC)),
        ("try again at Nov 21st, 2026 9:05 AM.", datetime(2026, 11, 21, 9, 5, tzinfo=UTC)),
        ("try again at Feb 31st, 2026 9:05 AM.", None),
        ("try again at 44:99 PM.", None),
        ("try again later.", None),
    ],
)
def test_reset_time_is_the_next_matching_time_or_absent(words: str, until: datetime | None) -> None:
    assert reset_time(words, NOON) == until


def test_retries_of_the_engine_are_reported() -> None:
    kinds = [e.failure.kind for e in replay(CODEX, "rate-limit", 1).events if type(e) is Retrying]
    assert kinds == ["rate_limit"] * 5


def test_prompt_and_persona_are_not_arguments() -> None:
    persona = 'A "quoted"\nSECRET \x7f\\ persona'
    start = CODEX.start(a_work(prompt="SECRET PLAN", persona=persona))
    assert "SECRET" not in " ".join(start.argv)
    assert start.stdin == b"SECRET PLAN"
    profile = tomllib.loads(start.files[".codex/gigafactory.config.toml"].decode())
    assert profile == {"developer_instructions": persona}
    assert start.argv[1:3] == ("exec", "--profile=gigafactory")


def test_default_start_is_limited_to_the_workspace_without_approvals() -> None:
    assert CODEX.start(a_work()).argv == (
        "/bin/engine",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--config=analytics.enabled=false",
        "--config=check_for_update_on_startup=false",
        '--config=projects={"/work/tree"={trust_level="untrusted"}}',
        "--config=sandbox_mode=workspace-write",
        "--config=approval_policy=never",
        "--",
        "-",
    )


def test_yolo_start_resumes_its_thread() -> None:
    argv = CODEX.start(a_work(yolo=True, session="t-1", model="gpt-5.5")).argv
    assert argv[1:3] == ("exec", "resume")
    assert argv[-5:] == (
        "--dangerously-bypass-approvals-and-sandbox",
        "--model=gpt-5.5",
        "--",
        "t-1",
        "-",
    )


def test_fleet_tools_are_configured_with_secrets_passed_by_name() -> None:
    start = CODEX.start(a_work(fleet_tools='/opt/a "b"/aq'))
    (given,) = [word for word in start.argv if "mcp_servers" in word]
    result = tomllib.loads(given.removeprefix("--config="))["mcp_servers"]["gigafactory"]
    assert (result["command"], result["args"]) == ('/opt/a "b"/aq', ["mcp"])
    assert result["env_vars"][:3] == ["AQ_FLEET_API", "AQ_FLEET_TOKEN", "AQ_JOB_ID"]
    assert "HTTPS_PROXY" in result["env_vars"]
    assert not [word for word in CODEX.start(a_work()).argv if "mcp_servers" in word]
