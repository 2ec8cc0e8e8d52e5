"""A product's budget: periods, ceilings, warnings, pauses, and exact sums."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused, Invalid
from gigafactory.domain.tenancy.budget import (
    CEILING_MAX,
    DAYS_KEPT,
    AtCeiling,
    Budget,
    BudgetTerms,
    BurndownPoint,
    Period,
    Spend,
    add_spend,
    burndown,
    pause_budget,
    resume_budget,
    set_budget_terms,
)
from tests.support.builders import NOON

USD = 10**9
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def a_budget(ceiling: int | None = 10 * USD, period: Period = Period.DAY, spent: int = 0) -> Budget:
    terms = BudgetTerms(ceiling_nano_usd=ceiling, period=period)
    return spending(Budget(product_id="notes", terms=terms), spent)


def spending(budget: Budget, nanos: int, at: datetime = NOON) -> Budget:
    return add_spend(budget, nanos, estimated=False, now=at)


def test_product_without_a_ceiling_is_never_stopped() -> None:
    free = a_budget(None, spent=5 * USD)
    assert free.stop_reason(NOON) is None
    assert free.remaining(NOON) is None
    assert (free.percent_spent(NOON), free.warning_level(NOON), free.is_exhausted(NOON)) == (
        0,
        0,
        False,
    )
    assert free.describe(NOON) == "$5 spent, no ceiling"


def test_daily_budget_restarts_at_midnight_utc() -> None:
    spent = a_budget(spent=10 * USD)
    assert spent.period_start(NOON) == NEW_YEAR
    assert spent.period_end(NOON) == NEW_YEAR + timedelta(days=1)
    assert spent.is_exhausted(NEW_YEAR + timedelta(hours=23, minutes=59))
    assert not spent.is_exhausted(NEW_YEAR + timedelta(days=1))
    assert spent.remaining(NEW_YEAR + timedelta(days=1)) == 10 * USD


def test_monthly_budget_follows_calendar_months() -> None:
    budget = spending(a_budget(period=Period.MONTH, spent=USD), 2 * USD, NOON + timedelta(days=30))
    assert budget.spent(NOON + timedelta(days=30)).nanos == 3 * USD
    assert budget.period_end(NOON + timedelta(days=30)) == datetime(2026, 2, 1, tzinfo=UTC)
    assert budget.period_end(datetime(2028, 2, 29, tzinfo=UTC)) == datetime(2028, 3, 1, tzinfo=UTC)
    assert budget.spent(datetime(2026, 2, 1, tzinfo=UTC)).nanos == 0


def test_total_budget_never_restarts() -> None:
    budget = a_budget(period=Period.TOTAL, spent=10 * USD)
    later = NOON + timedelta(days=9999)
    assert (budget.period_start(later), budget.period_end(later)) == (None, None)
    assert budget.is_exhausted(later)
    assert budget.describe(later) == "$10 of $10 in total"


def test_warning_levels_are_reached_in_order() -> None:
    reached = [
        a_budget(spent=cents * USD // 10).warning_level(NOON) for cents in (49, 50, 80, 95, 101)
    ]
    assert reached == [0, 50, 80, 95, 100]


def test_remaining_budget_excludes_reservations_and_is_never_negative() -> None:
    budget = replace(a_budget(spent=9 * USD), reserved_nano_usd=USD // 2)
    assert budget.remaining(NOON) == USD // 2
    assert replace(budget, reserved_nano_usd=5 * USD).remaining(NOON) == 0


def test_stop_reason_of_a_spent_budget_names_sums_and_next_period() -> None:
    assert a_budget(spent=10 * USD).stop_reason(NOON) == (
        "the budget of product notes is spent: $10 of $10 today; the next day begins 2026-01-02 UTC"
    )


def test_estimated_spend_is_marked_as_such() -> None:
    budget = add_spend(a_budget(spent=USD), 2, estimated=True, now=NOON)
    assert budget.spent(NOON) == Spend(USD + 2, 2)
    assert add_spend(budget, 0, estimated=True, now=NOON) is budget


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 10**15)), max_size=100))
def test_old_days_are_merged_into_one_sum_without_loss(bookings: list[tuple[int, int]]) -> None:
    budget = a_budget(period=Period.TOTAL)
    for day, nanos in bookings:
        budget = spending(budget, nanos, NOON + timedelta(days=day))
    assert len(budget.days) <= DAYS_KEPT
    assert budget.spent(NOON).nanos == sum(nanos for _, nanos in bookings)
    points = burndown(budget, now=NOON)
    assert sum(point.nanos for point in points) == budget.spent(NOON).nanos


def test_number_of_separate_days_is_limited() -> None:
    budget = a_budget(period=Period.TOTAL)
    for day in range(DAYS_KEPT + 8):
        budget = add_spend(budget, 3, estimated=bool(day % 2), now=NOON + timedelta(days=day))
    assert len(budget.days) == DAYS_KEPT
    assert budget.earlier == Spend(24, 12)
    assert budget.spent(NOON) == Spend(3 * (DAYS_KEPT + 8), 3 * (DAYS_KEPT + 8) // 2)


def test_burndown_lists_the_days_of_the_period() -> None:
    budget = spending(a_budget(period=Period.MONTH), 4 * USD, NOON - timedelta(days=1))
    budget = spending(spending(budget, 3 * USD), 9 * USD, NOON + timedelta(days=2))
    assert burndown(budget, now=NOON) == (
        BurndownPoint("2026-01-01", 3 * USD, 3 * USD, 7 * USD),
        BurndownPoint("2026-01-03", 9 * USD, 12 * USD, 0),
    )
    free = replace(budget, terms=BudgetTerms(period=Period.TOTAL), earlier=Spend(1))
    assert [point.day for point in burndown(free, now=NOON)][:2] == ["earlier", "2025-12-31"]
    assert burndown(free, now=NOON)[0].left_nanos is None


def test_ceiling_below_current_spend_is_rejected_with_both_sums() -> None:
    with pytest.raises(Invalid, match=r"ceilingUsd: is 4, and 5 is spent already .*\(day\)"):
        set_budget_terms(
            a_budget(spent=5 * USD),
            BudgetTerms(ceiling_nano_usd=4 * USD, period=Period.DAY),
            now=NOON,
        )
    equal = BudgetTerms(ceiling_nano_usd=5 * USD, period=Period.DAY)
    assert set_budget_terms(a_budget(spent=5 * USD), equal, now=NOON).is_exhausted(NOON)


@pytest.mark.parametrize("ceiling", [0, -1, CEILING_MAX + 1])
def test_absurd_ceiling_is_rejected(ceiling: int) -> None:
    with pytest.raises(Invalid, match=r"ceilingUsd: is .*; expected more than 0"):
        set_budget_terms(a_budget(), BudgetTerms(ceiling_nano_usd=ceiling), now=NOON)


def test_budget_terms_report_all_faults_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        BudgetTerms(ceiling_nano_usd=-1, reserve_nano_usd=-1, at_ceiling=AtCeiling.FINISH).check()
    assert [fault.field for fault in refused.value.faults] == ["ceilingUsd", "reserveUsd"]


def test_pause_names_its_author_and_the_first_pause_stands() -> None:
    budget = pause_budget(a_budget(), "user:ann", "ask finance", now=NOON)
    assert budget.stop_reason(NOON) == "product notes was paused by user:ann: ask finance"
    assert pause_budget(budget, "user:bob", "", now=NOON) is budget
    assert resume_budget(budget, now=NOON).stop_reason(NOON) is None
    silent = pause_budget(a_budget(), "user:ann", "", now=NOON)
    assert silent.stop_reason(NOON) == "product notes was paused by user:ann"


def test_spent_budget_cannot_be_resumed() -> None:
    with pytest.raises(BudgetPaused, match="raise the ceiling"):
        resume_budget(pause_budget(a_budget(spent=10 * USD), "user:ann", "", now=NOON), now=NOON)
    assert a_budget().key == "notes"
