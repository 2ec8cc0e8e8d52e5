"""`aq explain`: the learned choice is shown only if the product has a routing rollout."""

import pytest

from gigafactory.cli.jobs.explain import _show
from gigafactory.domain.job.job import Stage
from gigafactory.domain.scheduler.explain import Explanation, Reason

CHOICES = [
    {"engine": "claude", "factoryId": "mac-1", "success": 0.55, "seconds": 60, "costUsd": 0.5},
    {"engine": "codex", "factoryId": "mac-2", "success": 0.86, "seconds": 60, "costUsd": 0.2},
]
ROUTING = {
    "mode": "shadow",
    "side": "heuristic",
    "explored": False,
    "choices": CHOICES,
    "chosen": 0,
    "learned": 1,
    "standsOn": "first tries: engine claude 50",
}


def explanation_of(decision: dict[str, object]) -> Explanation:
    return Explanation(
        job_id="job-1", stage=Stage.BUILDING, answer="here", summary="mac-1", decision=decision
    )


def test_explain_shows_the_learned_choice_with_its_probability(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _show(explanation_of({"propensity": 1.0, "routing": ROUTING}))
    said = capsys.readouterr().out
    assert "learned (shadow): chosen by the heuristic side, with a probability of 1" in said
    assert "chosen: claude on mac-1: passes at once 55%, $0.50" in said
    assert "learned would choose: codex on mac-2: passes at once 86%, $0.20" in said
    _show(explanation_of({"propensity": 0.25, "routing": ROUTING | {"explored": True}}))
    assert "chosen at random, with a probability of 0.25" in capsys.readouterr().out


def test_explain_without_a_rollout_shows_no_learned_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _show(explanation_of({"propensity": 1.0}))
    assert "learned" not in capsys.readouterr().out


def test_explain_says_the_same_sentence_once(capsys: pytest.CaptureFixture[str]) -> None:
    never = "no factory has ever had the engine claude"
    refusal = Reason("engine", "mac-1: it has no engine claude")
    _show(
        Explanation(
            job_id="job-1",
            stage=Stage.QUEUED,
            answer="not_yet",
            summary=never,
            reasons=(Reason("unroutable", never), refusal),
            unroutable=(never,),
        )
    )
    assert capsys.readouterr().out == f"queued: {never}\n  engine: {refusal.message}\n"
