"""Off-policy estimates: correct on synthetic data, and no conclusion from too little data."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gigafactory.domain.insights.exploration import Episode, TrialBatch, TrialStep, episode_key
from gigafactory.domain.insights.guardrail import TrialArm
from gigafactory.domain.insights.observation import CellUpdate
from gigafactory.domain.insights.off_policy import EPISODES_MIN, PolicyEstimate, evaluate_policies
from gigafactory.domain.insights.routing_record import ExpectedOutcome, RoutingRecord
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout, RoutingSide
from tests.support.builders import NOON, after
from tests.support.observations import a_cell, an_observation

pytestmark = pytest.mark.slow

TRUE = {"claude": 0.5, "codex": 0.8, "pi": 0.3}
"""The true first-pass rate of each engine, hidden from the estimator."""


def a_routed(chosen: int = 0, **fields: object) -> RoutingRecord:
    choices = tuple(
        ExpectedOutcome(engine=name, factory_id="mac-1", success=0.6, seconds=60.0, cost_usd=0.5)
        for name in TRUE
    )
    usual = RoutingRecord(
        mode=RolloutMode.AB,
        trial=2,
        side=RoutingSide.LEARNED,
        explored=True,
        choices=choices,
        chosen=chosen,
        heuristic=0,
        learned=1,
    )
    return replace(usual, **fields)


def played(count: int, *, learned: int = 1, usd: float | None = 0.5) -> list[Episode]:
    """Return episodes with randomly drawn engines; the heuristic always chooses the first one."""
    rng = random.Random(5)
    episodes = []
    for number in range(count):
        chosen = rng.randrange(3)
        passed = rng.random() < list(TRUE.values())[chosen]
        episodes.append(
            Episode(
                product_id="notes",
                job_id=f"job-{number}",
                routing=a_routed(chosen, learned=learned),
                propensity=1 / 3,
                observation=an_observation(1, int(passed), usd=usd),
                expires_at=after(1),
            )
        )
    return episodes


def named(estimates: Sequence[PolicyEstimate], name: str) -> PolicyEstimate:
    return next(each for each in estimates if each.policy == name)


def test_policy_estimates_match_the_true_success_rates() -> None:
    found = evaluate_policies(played(3000))
    for name, true in (("learned", 0.8), ("heuristic", 0.5), ("best single: always codex", 0.8)):
        estimate = named(found.estimates, name)
        for odds in (estimate.ips, estimate.snips, estimate.doubly_robust):
            assert odds.share == pytest.approx(true, abs=0.06)
            assert odds.low < odds.share < odds.high < odds.low + 0.12
        assert estimate.seconds == pytest.approx(600, rel=0.01)
        assert estimate.cost_usd == pytest.approx(0.5, rel=0.01)
    assert found.gain is not None
    assert found.gain.share == pytest.approx(0.3, abs=0.06)
    assert found.is_conclusive
    assert found.conclusion.startswith("learned routing does better than the heuristic: +")


def test_worse_or_equal_learned_routing_is_reported_as_such() -> None:
    worse = evaluate_policies(played(3000, learned=2))
    assert worse.conclusion.startswith("learned routing does worse than the heuristic: -")
    same = evaluate_policies(played(600, learned=0))
    assert not same.is_conclusive
    assert same.conclusion.startswith("no significant difference: ")
    assert "needed to detect five points" in same.conclusion


def test_too_few_episodes_support_no_conclusion_and_name_the_number_needed() -> None:
    few = evaluate_policies(played(EPISODES_MIN - 1))
    assert (few.is_conclusive, few.gain, few.episodes) == (False, None, EPISODES_MIN - 1)
    assert few.conclusion.startswith("too little data: 99 jobs explored")
    assert "needed to detect a difference of five points of success" in few.conclusion
    one = evaluate_policies(played(1))
    assert not one.is_conclusive
    unmatched = [each for each in played(600) if each.routing.chosen == 2]
    assert "only 0 random choices" in evaluate_policies(unmatched).conclusion


def test_evaluation_without_exploration_draws_no_conclusion() -> None:
    sure = [replace(each, propensity=1.0) for each in played(500)]
    found = evaluate_policies(sure)
    assert (found.episodes, found.estimates, found.is_conclusive) == (0, (), False)
    assert "no job has explored" in found.conclusion
    assert "--explore" in found.conclusion


def test_unknown_costs_are_not_estimated() -> None:
    found = evaluate_policies(played(200, usd=None))
    assert named(found.estimates, "learned").cost_usd is None


def test_unavailable_engine_is_replaced_by_the_heuristic_choice() -> None:
    only = a_routed(0, choices=a_routed().choices[:2], learned=1)
    some = [replace(each, routing=only) for each in played(300)]
    found = evaluate_policies([*played(300), *some])
    assert found.episodes == 600
    assert named(found.estimates, "best single: always codex").matches > 0


def tried(routed: RoutingRecord, *, passed: bool = True, job_id: str = "job-1") -> TrialStep:
    result = (CellUpdate(a_cell(), an_observation(1, int(passed))),)
    return TrialStep("notes", job_id, "2026-01-01", routed, 1 / 3, result)


def test_explored_run_is_saved_as_an_episode_and_counts_on_no_side() -> None:
    trials = TrialBatch()
    trials.add(tried(a_routed()))
    assert list(trials.episodes) == [episode_key("notes", "job-1")]
    assert not trials.products
    (saved,) = trials.save_episodes({})
    episode = saved.after
    assert isinstance(episode, Episode)
    assert (episode.propensity, episode.observation, episode.rev) == (
        1 / 3,
        an_observation(1, 1),
        1,
    )
    assert episode.key == "notes/job-1"
    later = TrialBatch()
    later.add(tried(a_routed())._replace(updates=(CellUpdate(a_cell(), an_observation(0, 0)),)))
    (again,) = later.save_episodes({episode.key: episode})
    assert isinstance(again.after, Episode)
    assert (again.after.observation, again.after.rev) == (episode.observation, 2)


def test_other_runs_count_on_their_side_of_the_current_trial_only() -> None:
    routing = RoutingRollout(product_id="notes", mode=RolloutMode.AB, share=0.5, trial=2)
    trials = TrialBatch()
    trials.add(tried(a_routed(explored=False)))
    trials.add(tried(a_routed(explored=False, side=RoutingSide.HEURISTIC), passed=False))
    trials.add(tried(a_routed(explored=False, trial=1)))
    ((before, after_),) = trials.update_rollouts({"notes": routing}, NOON)
    assert before is routing
    assert (after_.learned.tries, after_.learned.passes) == (1, 1)
    assert (after_.usual.tries, after_.usual.passes, after_.usual.priced) == (1, 0, 1)
    stale = TrialBatch()
    stale.add(tried(a_routed(explored=False, trial=1)))
    assert list(stale.update_rollouts({"notes": routing}, NOON)) == []
    usual = TrialBatch()
    usual.add(tried(a_routed(explored=False, side=RoutingSide.HEURISTIC)))
    ((_, only),) = usual.update_rollouts({"notes": routing}, NOON)
    assert only.learned == TrialArm()
