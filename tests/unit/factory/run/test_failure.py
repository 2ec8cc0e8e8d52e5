"""Small rules of a run: prompts, results of failures, usage and setup commands."""

from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.domain.job.job import Result
from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import Failure, FailureKind
from gigafactory.factory.run import prompts
from gigafactory.factory.run.failure import RESULTS, outcome_of_engine_failure
from gigafactory.factory.run.live_usage import add_usage
from tests.support.builders import NOON


def test_first_prompt_of_a_new_run_is_the_body() -> None:
    assert prompts.first_prompt("# Fix it\n", (), resumed=False) == "# Fix it\n"


def test_prompt_on_earlier_work_asks_to_look_at_it_first() -> None:
    result = prompts.first_prompt("Fix it.", ("Use tabs.",), resumed=True, guides=["AGENTS.md"])
    assert "AGENTS.md: read it first" in result
    assert result.index("Fix it.") < result.index("looked at") < result.index("Use tabs.")
    assert "interrupted" in prompts.first_prompt("Fix it.", (), resumed=True)


def test_resume_prompt_contains_only_news() -> None:
    assert "interrupted" in prompts.resume_prompt(())
    assert "Use tabs." in prompts.resume_prompt(("Use tabs.",))
    assert "interrupted" not in prompts.resume_prompt(("Use tabs.",))


def test_verify_failed_prompt_contains_the_end_of_the_output() -> None:
    result = prompts.verify_failed_prompt("make test", "x" * 100_000 + "the end")
    assert "make test" in result
    assert result.rstrip().endswith("the end")
    assert len(result) < 25_000


@pytest.mark.parametrize("trouble", FailureKind)
def test_every_failure_kind_maps_to_one_result(trouble: FailureKind) -> None:
    outcome = outcome_of_engine_failure("claude", Failure(trouble, "it says so"), now=NOON)
    assert outcome.result is RESULTS[trouble]
    assert outcome.reason == "claude: it says so"
    assert not outcome.succeeded


def test_failure_with_a_reset_time_gives_the_wait() -> None:
    until = NOON + timedelta(hours=1)
    outcome = outcome_of_engine_failure(
        "codex", Failure(FailureKind.ALLOWANCE, "used up", until), now=NOON
    )
    assert (outcome.result, outcome.retry_after_s) == (Result.RATE_LIMITED, 3600.0)
    past = outcome_of_engine_failure("codex", Failure(FailureKind.ALLOWANCE, "", NOON), now=until)
    assert (past.retry_after_s, past.reason) == (0.0, "codex: allowance")


def test_usage_adds_up_and_cost_is_known_only_if_every_part_is() -> None:
    one = Usage(model="m", tokens_in=3, tokens_out=1, cost_nano_usd=5, turns=1)
    assert add_usage(None, one) is one
    assert add_usage(one, one).cost_nano_usd == 10
    assert add_usage(one, one).tokens_in == 6
    assert add_usage(one, Usage(tokens_in=1)).cost_nano_usd is None
    assert add_usage(one, Usage(engine="claude")).cost_nano_usd == 5
    assert add_usage(one, Usage(engine="claude")).model == "m"


def test_setup_commands_come_from_manifest_repo_or_lock_files(tmp_path: Path) -> None:
    from gigafactory.factory.phases.setup import setup_commands

    (tmp_path / "uv.lock").touch()
    assert setup_commands("none", tmp_path) == []
    assert setup_commands("make deps", tmp_path) == ["make deps"]
    assert setup_commands("auto", tmp_path) == ["uv sync --frozen"]
    (tmp_path / ".aq").mkdir()
    (tmp_path / ".aq" / "setup").touch()
    assert setup_commands("auto", tmp_path) == ["./.aq/setup"]
