"""The ceiling of a composite: its source, its charges, and the effect of exhausting it."""

from msgspec.structs import replace

from gigafactory.domain.composite.budget import Ceiling, ceiling_of, charge, mark_over_budget
from gigafactory.domain.composite.composite import advance
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import OVER_BUDGET, Job, Roadmap, Stage
from gigafactory.domain.job.run import start_run
from gigafactory.domain.manifest.manifest import JobBudget
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.explain import explain
from gigafactory.domain.submission.submission import admits
from tests.support.builders import NOON, a_job, a_running_job

USD = 10**9


def a_composite(**fields: object) -> Job:
    usual = {"id": "top", "name": "top", "kind": "composite", "roadmap": Roadmap(1, 1)}
    return a_job(**(usual | fields))


def a_ceiling(**fields: object) -> Ceiling:
    return replace(Ceiling(job_id="top", product_id="notes", usd_nanos=5 * USD), **fields)


def test_composite_ceiling_comes_from_the_manifest_budget() -> None:
    top = a_composite()
    assert ceiling_of(top, None) is None
    assert ceiling_of(top, JobBudget()) is None
    assert ceiling_of(top, JobBudget(usd_nanos=5 * USD)) == a_ceiling()
    both = ceiling_of(top, JobBudget(usd_nanos=1, tokens=2))
    assert both is not None
    assert (both.key, both.usd_nanos, both.tokens) == ("top", 1, 2)


def test_composite_budget_is_exhausted_by_money_or_tokens() -> None:
    assert not a_ceiling().exhausted
    assert a_ceiling(spent_nano_usd=5 * USD).exhausted
    tokens = a_ceiling(usd_nanos=None, tokens=10)
    assert not replace(tokens, spent_tokens=9).exhausted
    assert replace(tokens, spent_tokens=10).exhausted
    result = a_ceiling(tokens=10, spent_nano_usd=USD, spent_tokens=3).summary
    assert result == "$1 of $5, 3 of 10 tokens"
    assert tokens.summary == "0 of 10 tokens"


def test_composite_is_charged_only_the_increase_in_spending() -> None:
    before = replace(start_run(a_running_job(), {}), spent_nano_usd=3, spent_tokens=30)
    after = replace(before, spent_nano_usd=7, spent_tokens=31)
    ceiling = charge(a_ceiling(spent_nano_usd=10, spent_tokens=1), before, after)
    assert (ceiling.spent_nano_usd, ceiling.spent_tokens) == (14, 2)


def test_exhausted_composite_admits_no_child_and_opens_no_phase() -> None:
    top = a_composite(stage=Stage.BUILDING)
    child = a_job(parent_id="top", phase=2, stage=Stage.BLOCKED)
    assert advance(top, [child], started=True, now=NOON) is not None
    change = mark_over_budget(top, a_ceiling(spent_nano_usd=6 * USD), now=NOON)
    over = change.after
    assert over.flags == (OVER_BUDGET,)
    assert mark_over_budget(over, a_ceiling(), now=NOON).after.flags == (OVER_BUDGET,)
    (event,) = change.events
    assert event.data == {"composite": "top", "reason": "the budget is spent: $6 of $5"}
    assert admits(top, replace(child, phase=1))
    assert not admits(over, replace(child, phase=1))
    assert advance(over, [child], started=True, now=NOON) is None
    assert advance(over, [], started=True, now=NOON) is not None


def test_explain_names_the_exhausted_budget() -> None:
    over = a_composite(stage=Stage.BUILDING, flags=(OVER_BUDGET,))
    child = a_job(id="c", parent_id="top")

    def summary(job: Job, parent: Job | None = None) -> str:
        return explain(job, ReadyQueue(), FleetState(), NOON, parent=parent).summary

    assert "the budget of top is spent" in summary(over)
    assert "the budget of top is spent" in summary(child, over)
    assert "the budget of top is spent" in summary(replace(child, stage=Stage.BLOCKED), over)
    assert "is spent" not in summary(replace(child, stage=Stage.TESTING), over)
    assert "is spent" not in summary(child, a_composite())
