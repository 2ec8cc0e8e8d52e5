"""Dispatch modes: agreement with the shadow dispatcher, and when it may take over."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict
from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.tenancy.dispatch_mode import (
    COMPARISONS_MIN,
    DIFFERENCES_MAX,
    SCORE_TOLERANCE,
    ComparedPlacement,
    ComparisonOutcome,
    OutcomeCounts,
    ShadowComparison,
    ShadowFindings,
    compare_placements,
    require_cut_over,
)
from tests.support.builders import NOON, a_lease, a_running_job, after
from tests.support.small_fleet import a_fleet, a_linux, a_queue, old_job

HELD = ("slot/linux-1/0", "seat/linux-1/claude/0")
HERE = ComparedPlacement(factory_id="mac-1", engine="claude", score=4.0)


def elsewhere(score: float, engine: str = "claude") -> ComparedPlacement:
    return ComparedPlacement(factory_id="mac-2", engine=engine, score=score)


def outcome(shadow: ComparedPlacement | None, real: ComparedPlacement | None) -> ComparisonOutcome:
    """Return the outcome as which a comparison is counted."""
    counts = compare_placements("job-1", shadow, real, now=NOON).counts
    (found,) = [each for each in ComparisonOutcome if getattr(counts, each)]
    assert counts.decisions == 1
    return found


def test_same_factory_agrees_regardless_of_score() -> None:
    found = compare_placements("job-1", HERE, replace(HERE, score=1.0), now=NOON)
    assert found == ShadowFindings(counts=OutcomeCounts(agree=1, same=1))


def test_another_factory_agrees_at_a_score_within_tolerance() -> None:
    found = compare_placements("job-1", HERE, elsewhere(4.0 - SCORE_TOLERANCE, "codex"), now=NOON)
    assert found == ShadowFindings(counts=OutcomeCounts(agree=1))


def test_worse_factory_or_another_engine_diverges() -> None:
    assert outcome(HERE, elsewhere(3.9 - SCORE_TOLERANCE)) is ComparisonOutcome.DIVERGE
    assert outcome(HERE, replace(HERE, engine="codex")) is ComparisonOutcome.DIVERGE


def test_missing_placement_on_one_side_is_counted() -> None:
    assert outcome(HERE, None) is ComparisonOutcome.ONLY_SHADOW
    assert outcome(None, HERE) is ComparisonOutcome.ONLY_REAL


def test_newest_differences_are_kept_with_both_sides() -> None:
    found = ShadowFindings()
    for number in range(DIFFERENCES_MAX + 5):
        found = found.add(
            compare_placements(f"job-{number}", HERE, elsewhere(1.0), now=after(number))
        )
    assert found.counts == OutcomeCounts(diverge=DIFFERENCES_MAX + 5)
    assert [each.job_id for each in found.differences][::19] == ["job-5", "job-24"]
    assert (found.differences[0].shadow, found.differences[0].real) == (HERE, elsewhere(1.0))


def a_comparison(**counts: int) -> ShadowComparison:
    return ShadowComparison(product_id="notes", since=NOON, counts=OutcomeCounts(**counts))


def test_comparison_adds_findings() -> None:
    known = a_comparison(agree=3, same=2)
    grown = known.add_findings(compare_placements("job-1", HERE, None, now=NOON))
    assert grown.counts == OutcomeCounts(agree=3, same=2, only_shadow=1)
    assert [each.outcome for each in grown.differences] == [ComparisonOutcome.ONLY_SHADOW]
    assert (grown.key, grown.rev) == ("notes", known.rev + 1)


def test_cut_over_is_allowed_after_enough_agreeing_decisions() -> None:
    require_cut_over("notes", a_comparison(agree=COMPARISONS_MIN))
    require_cut_over("notes", a_comparison(agree=198, only_real=2))


@pytest.mark.parametrize(
    "known",
    [
        None,
        a_comparison(agree=COMPARISONS_MIN - 1),
        a_comparison(agree=197, diverge=2, only_shadow=1),
    ],
)
def test_early_cut_over_is_rejected_with_the_missing_evidence(
    known: ShadowComparison | None,
) -> None:
    with pytest.raises(Conflict) as refused:
        require_cut_over("notes", known)
    assert "needs 200 at 99%" in refused.value.detail
    result = "98.5%" if known is not None and known.counts.diverge else ""
    assert result in refused.value.detail


def test_only_jobs_of_filtered_products_are_placed() -> None:
    queue = a_queue(old_job("a", product_id="notes"), old_job("b", product_id="shop"))
    fleet = a_fleet(a_linux())
    pick = pick_offer(queue, fleet, now=NOON, product_filter=lambda product: product == "shop")
    assert pick is not None
    assert pick.job_id == "b"
    assert pick_offer(queue, fleet, now=NOON, product_filter=lambda _: False) is None


def test_next_job_is_found_behind_many_skipped_ones() -> None:
    jobs = [old_job(f"job-{number:03}") for number in range(150)]
    passed = {job.id for job in jobs[:140]}
    pick = pick_offer(a_queue(*jobs), a_fleet(a_linux()), now=NOON, skip=passed)
    assert pick is not None
    assert pick.job_id == "job-140"


def test_hypothetical_seats_are_undone_afterwards() -> None:
    fleet = a_fleet(a_linux(slots=2, engines={"claude": EngineSeats(seats=2)}))
    running = a_running_job(id="running", lease=a_lease(factory_id="linux-1", holds=HELD))
    ended = replace(running, lease=None, ending=(running.lease,))
    fleet.put_job(ended)
    seats = fleet.seat_keys("linux-1", "claude")
    assert seats is not None
    with fleet.hypothetical_seats(NOON) as suppose:
        suppose("new", "linux-1", "claude", seats)
        assert fleet.seat_keys("linux-1", "claude") is None
    assert fleet.seat_keys("linux-1", "claude") == seats
    with fleet.hypothetical_seats(NOON) as suppose:
        # The job still holds a seat of its ending lease, which hypothetical seats do not free.
        suppose("running", "linux-1", "claude", seats)
        suppose("running", "linux-1", "claude", seats)
        assert fleet.seat_keys("linux-1", "claude") is None
    assert fleet.seat_keys("linux-1", "claude") == seats
