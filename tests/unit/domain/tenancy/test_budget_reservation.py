"""Reservations and booked differences: spending stays bounded in any interleaving."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job.job import Ask, Result, Step
from gigafactory.domain.job.run import Run, Usage, end_run, start_run
from gigafactory.domain.tenancy.budget import (
    Budget,
    BudgetTerms,
    CostSample,
    Period,
    add_spend,
    pause_budget,
)
from gigafactory.domain.tenancy.budget_reservation import (
    SAMPLES_KEPT,
    accrue_run_cost,
    add_unbudgeted_runs,
    affects_budget,
    budget_warnings,
    estimate_run_cost,
    reservation_for,
    reservation_refusal,
    reserve_budget,
    settle_reservation,
)
from tests.support.builders import NOON, a_running_job
from tests.unit.domain.tenancy.test_budget import USD, a_budget

ANY = Ask(repo="notes")


def a_run(**fields: object) -> Run:
    return replace(start_run(a_running_job(ask=ANY), {}), **fields)


def report_cost(run: Run, nanos: int | None, *, estimated: bool = False) -> Run:
    """Return the run after its worker has reported this cost."""
    after = replace(run, usage=Usage(cost_nano_usd=nanos, estimated=estimated))
    return accrue_run_cost(run, after, budgeted=True)


def ended(run: Run) -> Run:
    return accrue_run_cost(run, end_run(run, Result.OK, None, now=NOON), budgeted=True)


def with_samples(*nanos: int, engine: str = "claude") -> Budget:
    return replace(a_budget(), samples=tuple(CostSample("notes", engine, n) for n in nanos))


def test_reservation_is_the_jobs_budget_then_the_estimate_then_the_default() -> None:
    likes = with_samples(*(n * USD for n in range(1, 11)))
    assert reservation_for(likes, replace(ANY, budget_nano_usd=7)) == 7
    assert reservation_for(likes, ANY) == 9 * USD
    assert reservation_for(likes, Ask(repo="shop")) == USD
    assert reservation_for(likes, replace(ANY, engine="codex")) == USD


def test_estimate_needs_enough_samples_of_the_same_repo_and_engine() -> None:
    samples = with_samples(5, 1, 4, 2).samples
    assert estimate_run_cost(samples, "notes", None) is None
    assert estimate_run_cost((*samples, CostSample("notes", "codex", 3)), "notes", None) == 5
    assert estimate_run_cost((*samples, CostSample("notes", "codex", 3)), "notes", "claude") is None


@given(st.lists(st.integers(1, 10**12), min_size=5, max_size=60))
def test_estimate_is_the_least_cost_that_covers_nine_tenths_of_runs(costs: list[int]) -> None:
    found = estimate_run_cost(with_samples(*costs).samples, "notes", "claude")
    assert found in costs
    assert sum(cost <= (found or 0) for cost in costs) * 10 >= len(costs) * 9
    assert sum(cost < (found or 0) for cost in costs) * 10 < len(costs) * 9


def test_job_budget_must_fit_into_the_remaining_budget() -> None:
    budget, part = reserve_budget(a_budget(), replace(ANY, budget_nano_usd=6 * USD), now=NOON)
    assert (part, budget.reserved_nano_usd) == (6 * USD, 6 * USD)
    with pytest.raises(BudgetPaused, match=r"needs \$6, and \$4 is left .* \$6 reserved"):
        reserve_budget(budget, replace(ANY, budget_nano_usd=6 * USD), now=NOON)
    why = reservation_refusal(a_budget(), replace(ANY, budget_nano_usd=11 * USD), now=NOON)
    assert why is not None
    assert "set aside" not in why


def test_estimate_is_reduced_to_the_remaining_budget_when_nothing_runs() -> None:
    nearly = a_budget(spent=10 * USD - 5)
    budget, part = reserve_budget(nearly, ANY, now=NOON)
    assert part == 5
    assert reservation_refusal(budget, ANY, now=NOON) is not None


def test_product_without_a_ceiling_reserves_any_amount() -> None:
    budget, part = reserve_budget(a_budget(None), replace(ANY, budget_nano_usd=10**17), now=NOON)
    assert part == budget.reserved_nano_usd == 10**17


def test_paused_product_reserves_nothing() -> None:
    with pytest.raises(BudgetPaused, match="was paused by user:ann"):
        reserve_budget(pause_budget(a_budget(), "user:ann", "", now=NOON), ANY, now=NOON)


def test_only_the_cost_increase_is_booked_and_taken_off_the_reservation() -> None:
    budget, part = reserve_budget(a_budget(), ANY, now=NOON)
    run = a_run(reserved_nano_usd=part)
    for cost in (USD // 4, USD // 2, USD // 3, USD // 2):
        after = report_cost(run, cost)
        budget = settle_reservation(budget, run, after, now=NOON)
        run = after
    assert budget.spent(NOON).nanos == USD // 2
    assert budget.reserved_nano_usd == run.reserved_nano_usd == USD - USD // 2


def test_ended_run_releases_its_reservation_and_adds_a_cost_sample() -> None:
    budget, part = reserve_budget(a_budget(), ANY, now=NOON)
    run = a_run(reserved_nano_usd=part)
    spent = report_cost(run, 7)
    budget = settle_reservation(budget, run, spent, now=NOON)
    done = ended(spent)
    budget = settle_reservation(budget, spent, done, now=NOON)
    assert budget.reserved_nano_usd == 0
    assert budget.samples == (CostSample("notes", "claude", 7),)
    late = report_cost(done, 9, estimated=True)
    budget = settle_reservation(budget, done, late, now=NOON)
    assert (budget.spent(NOON).nanos, budget.spent(NOON).estimated) == (9, 2)
    assert len(budget.samples) == 1


def test_number_of_cost_samples_is_limited() -> None:
    budget = with_samples(*range(1, SAMPLES_KEPT + 1))
    run = report_cost(a_run(), 77)
    assert settle_reservation(budget, run, ended(run), now=NOON).samples[-1].nanos == 77
    assert len(settle_reservation(budget, run, ended(run), now=NOON).samples) == SAMPLES_KEPT


def test_report_without_cost_does_not_affect_the_budget() -> None:
    run = a_run()
    assert not affects_budget(run, report_cost(run, None))
    assert not affects_budget(run, accrue_run_cost(run, run, budgeted=True))
    assert not affects_budget(run, ended(run))
    assert affects_budget(run, report_cost(run, 1))


def test_spend_before_the_budget_existed_counts_on_the_day_of_the_grant() -> None:
    before = accrue_run_cost(
        a_run(), replace(a_run(), usage=Usage(cost_nano_usd=5)), budgeted=False
    )
    assert before.unbudgeted_nano_usd == 5
    since = report_cost(before, 8)
    assert (since.spent_nano_usd, since.unbudgeted_nano_usd) == (8, 5)
    yesterday = replace(before, granted_at=NOON - timedelta(days=1))
    others = (replace(before, product_id="shop"), replace(before, step=Step.SHIP))
    silent = replace(before, usage=None)
    opened = add_unbudgeted_runs((since, yesterday, silent, *others), a_budget(), now=NOON)
    assert opened.opened
    assert opened.spent(NOON).nanos == 10
    assert opened.days["2025-12-31"].nanos == 5


def test_each_budget_warning_is_sent_once_and_the_last_as_exceeded() -> None:
    kinds = []
    budget = a_budget()
    for cents in (40, 20, 5, 40, 10, 10):
        after = add_spend(budget, cents * USD // 10, estimated=False, now=NOON)
        kinds += [
            (e.type, e.data["percent"]) for e in budget_warnings(budget, after, "x", now=NOON)
        ]
        budget = after
    assert kinds == [("budget_warning", 50), ("budget_exceeded", 100)]
    (event,) = budget_warnings(a_budget(), a_budget(spent=5 * USD), "factory:mac-1", now=NOON)
    assert event.data == {
        "product": "notes",
        "period": Period.DAY,
        "ceilingUsd": "10",
        "spentUsd": "5",
        "percent": 50,
    }


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.none() | st.integers(0, 8 * USD)),
        st.tuples(st.just("report"), st.integers(0, 3 * USD)),
        st.tuples(st.just("end"), st.integers(0, 100)),
    ),
    max_size=60,
)


class World:
    """A product whose runs report and end in any order; all end when the budget is exhausted."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        terms = BudgetTerms(ceiling_nano_usd=ceiling, period=Period.TOTAL)
        self.budget = Budget(product_id="notes", terms=terms)
        self.runs: list[Run] = []
        self.ended: list[Run] = []
        self.over = 0
        """One reporting step of what was running when the ceiling was reached."""

    def grant(self, wanted: int | None) -> None:
        ask = replace(ANY, budget_nano_usd=wanted)
        try:
            self.budget, part = reserve_budget(self.budget, ask, now=NOON)
        except BudgetPaused:
            return
        assert not self.budget.is_exhausted(NOON)
        taken = self.budget.spent(NOON).nanos + self.budget.reserved_nano_usd
        assert taken <= max(self.ceiling, taken - part)
        self.runs.append(a_run(reserved_nano_usd=part))

    def report(self, number: int, nanos: int) -> None:
        run = self.runs[number]
        self.runs[number] = report_cost(run, run.spent_nano_usd + nanos)
        self.budget = settle_reservation(self.budget, run, self.runs[number], now=NOON)

    def end(self, number: int) -> None:
        run = self.runs.pop(number)
        self.ended.append(ended(run))
        self.budget = settle_reservation(self.budget, run, self.ended[-1], now=NOON)

    def spend(self, nanos: int) -> None:
        """Let one run report; if that exhausts the budget, the others report once and all end."""
        if not self.runs:
            return
        self.report(nanos % len(self.runs), nanos)
        if self.budget.is_exhausted(NOON):
            self.over += nanos * len(self.runs)
            for number in range(len(self.runs)):
                if number != nanos % len(self.runs):
                    self.report(number, nanos)
            while self.runs:
                self.end(0)

    def check(self) -> None:
        everybody = (*self.runs, *self.ended)
        spent = self.budget.spent(NOON).nanos
        assert spent == sum(run.spent_nano_usd for run in everybody)
        assert self.budget.reserved_nano_usd == sum(run.reserved_nano_usd for run in everybody)
        assert spent <= self.ceiling + self.over


@given(st.integers(1, 20 * USD), STEPS)
def test_spend_stays_under_the_ceiling_plus_one_report_per_run(
    ceiling: int, steps: list[tuple[str, int | None]]
) -> None:
    world = World(ceiling)
    for kind, value in steps:
        match kind:
            case "grant":
                world.grant(value)
            case "report":
                world.spend(value or 0)
            case _ if world.runs:
                world.end((value or 0) % len(world.runs))
            case _:
                pass
        world.check()
