"""Demand by requirement: only jobs that could start count, and each free seat counts once."""

from datetime import timedelta

from hypothesis import given
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import Exclusion, Job, Priority, ShipRequest, Stage
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.domain.scaling.demand import Demand, DemandSnapshot, measure_demand
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import NOON, a_job, a_lease, a_running_job, after
from tests.support.small_fleet import (
    NO_DEADLINE,
    a_fleet,
    a_linux,
    a_queue,
    an_offer,
    ask_for,
    old_job,
)
from tests.unit.domain.scheduler.test_scheduler_properties import a_view, factories, jobs
from tests.unit.domain.tenancy.test_budget import USD, a_budget

TWO_SEATS = {"engines": {"claude": EngineSeats(seats=2)}, "slots": 2}


def looked(fleet: FleetState, *jobs: Job) -> DemandSnapshot:
    for job in jobs:
        fleet.put_job(job)
    return measure_demand(a_queue(*jobs), fleet, NOON)


def only(seen: DemandSnapshot) -> Demand:
    (demand,) = seen.demands
    return demand


def two(**fields: object) -> list[Job]:
    return [a_job(id=f"j{n}", **fields) for n in range(2)]


def test_jobs_of_one_class_are_counted_together() -> None:
    demand = only(looked(a_fleet(), *two(), a_running_job(id="r")))
    assert (demand.waiting, demand.running, demand.served, demand.free) == (2, 1, 0, 0)
    assert (demand.unserved, demand.oldest_s, demand.is_late) == (2, 0.0, False)


def test_running_jobs_count_as_demand_without_waiting() -> None:
    demand = only(looked(a_fleet(), a_running_job(id="r"), a_running_job(id="s")))
    assert (demand.waiting, demand.running, demand.oldest_s) == (0, 2, None)


def test_free_seat_serves_one_job() -> None:
    seen = looked(a_fleet(a_linux()), *two())
    demand = only(seen)
    assert (demand.free, demand.served, demand.unserved) == (1, 1, 1)
    assert seen.busy_soon == {"linux-1"}


def test_factory_serves_as_many_jobs_as_it_has_slots_and_seats() -> None:
    wide = a_linux(slots=3, engines={"claude": EngineSeats(seats=2)})
    assert only(looked(a_fleet(wide), *two(), a_job(id="j3"))).served == 2
    narrow = a_linux(slots=1, engines={"claude": EngineSeats(seats=2)})
    assert only(looked(a_fleet(narrow), *two())).served == 1


def test_job_without_engine_preference_is_served_by_any_free_engine() -> None:
    both = a_linux(slots=2, engines={"claude": EngineSeats(), "codex": EngineSeats()})
    demand = only(looked(a_fleet(both), *two()))
    assert (demand.free, demand.served) == (2, 2)


def test_free_seat_goes_to_the_most_urgent_class() -> None:
    ranks = (Priority.LOW, Priority.HIGH, Priority.MEDIUM)
    jobs = [a_job(id=priority, priority=priority) for priority in ranks]
    demands = looked(a_fleet(a_linux()), *jobs).demands
    assert [demand.job_class.priority for demand in demands] == ["high", "medium", "low"]
    assert [(demand.served, demand.free) for demand in demands] == [(1, 1), (0, 1), (0, 1)]


def test_late_class_comes_before_an_urgent_one() -> None:
    fleet = a_fleet(a_linux())
    fleet.put_product(Product(id="notes", target_wait={Priority.LOW: timedelta(minutes=5)}))
    patient = old_job("low", waited=timedelta(minutes=6), priority=Priority.LOW)
    late, urgent = looked(fleet, patient, a_job(id="high", priority=Priority.HIGH)).demands
    assert (late.is_late, late.target_s, late.oldest_s, late.served) == (True, 300.0, 360.0, 1)
    assert (urgent.is_late, urgent.target_s, urgent.served) == (False, None, 0)


def test_ship_step_needs_a_slot_and_has_no_target() -> None:
    fleet = a_fleet(a_linux(engines={}))
    fleet.put_product(Product(id="notes", target_wait={Priority.MEDIUM: timedelta(seconds=1)}))
    ship = ShipRequest(by="user:ann", commit=None, at=after(-60))
    demand = only(looked(fleet, a_job(stage=Stage.TESTING, ship=ship)))
    assert (demand.served, demand.free, demand.target_s, demand.oldest_s) == (1, 1, None, 60.0)


def test_busy_draining_silent_and_unfit_factories_serve_no_job() -> None:
    busy = a_fleet(a_linux())
    busy.put_job(a_running_job(id="r", lease=a_lease(factory_id="linux-1")))
    assert looked(busy, *two()).busy_soon == frozenset()
    for fleet in (
        a_fleet(a_linux(draining=True)),
        a_fleet(a_linux(), now=after(-100)),
        a_fleet(a_linux(products=("shop",))),
        a_fleet(a_linux(engines={"claude": EngineSeats(cooling_until=after(60))})),
    ):
        assert only(looked(fleet, *two())).served == 0


def test_fading_factory_still_serves_jobs() -> None:
    assert only(looked(a_fleet(a_linux(), now=after(-50)), a_job())).served == 1


def test_excluded_factory_does_not_serve_the_job() -> None:
    barred = a_job(exclusions=(Exclusion("linux-1", after(60)),))
    assert only(looked(a_fleet(a_linux()), barred)).served == 0
    over = a_job(exclusions=(Exclusion("linux-1", after(-1)),))
    assert only(looked(a_fleet(a_linux()), over)).served == 1


def test_job_that_requires_a_factory_is_served_only_by_it() -> None:
    fleet = a_fleet(a_linux("linux-1"), a_linux("linux-2"))
    demand = only(looked(fleet, *two(ask=ask_for("factory:linux-2"))))
    assert (demand.free, demand.served) == (1, 1)


def test_fleet_wide_seat_limit_applies_to_free_seats() -> None:
    fleet = a_fleet(a_linux("linux-1", **TWO_SEATS), a_linux("linux-2", **TWO_SEATS), claude=3)
    seen = looked(fleet, *(a_job(id=f"j{n}") for n in range(4)))
    assert (only(seen).served, seen.fleet_seats_left) == (3, {"claude": 0})


def test_job_that_cannot_start_adds_no_demand() -> None:
    fleet = a_fleet()
    assert looked(fleet, a_job(not_before=after(60))).demands == ()
    assert looked(fleet, a_job(stage=Stage.BLOCKED)).demands == ()
    held = a_running_job(id="r", lock="db", lease=a_lease(holds=("lock/notes/db",)))
    assert only(looked(fleet, held, a_job(lock="db"))).waiting == 0


def test_offered_job_adds_no_demand() -> None:
    fleet = a_fleet(a_linux())
    assert looked(fleet, a_job(offer=an_offer("linux-1"))).demands == ()


def test_only_one_job_behind_a_lock_adds_demand() -> None:
    rivals = [
        a_job(id="low", priority=Priority.LOW, lock="db"),
        a_job(id="high", priority=Priority.HIGH, lock="db"),
        a_job(id="other", priority=Priority.LOW),
    ]
    high, low = looked(a_fleet(), *rivals).demands
    assert (high.job_class.priority, high.waiting) == (Priority.HIGH, 1)
    assert (low.job_class.priority, low.waiting) == (Priority.LOW, 1)
    (alone,) = looked(a_fleet(), *rivals[:2]).demands
    assert alone.job_class.priority is Priority.HIGH


def test_halted_product_adds_no_demand_and_takes_no_seat() -> None:
    fleet = a_fleet(a_linux())
    fleet.put_switch(HaltSwitch(product_id="notes", halted=True, by="user:ann", at=NOON))
    seen = looked(fleet, a_job())
    demand = only(seen)
    assert (demand.waiting, demand.unserved, seen.busy_soon) == (1, 0, frozenset())
    assert demand.stopped == "product notes was halted by user:ann"


def test_job_beyond_the_budget_adds_no_demand() -> None:
    fleet = a_fleet()
    fleet.put_budget(a_budget(), now=NOON)
    demand = only(looked(fleet, a_job(ask=ask_for(budget_nano_usd=11 * USD))))
    assert (demand.waiting, demand.unserved) == (1, 0)
    assert (demand.stopped or "").startswith("the run needs $11")
    fleet.put_budget(a_budget(spent=10 * USD), now=NOON)
    assert only(looked(fleet, a_job())).unserved == 0


def test_demand_without_a_target_is_never_late() -> None:
    kind = JobClass.of(a_job(), a_lease().step)
    demand = Demand(job_class=kind, waiting=1, oldest_s=1e9)
    assert not demand.is_late
    assert not replace(demand, oldest_s=None, target_s=1.0).is_late
    assert replace(demand, target_s=1.0).is_late


@NO_DEADLINE
@given(jobs, factories)
def test_job_is_served_only_where_the_scheduler_can_place_one(
    waiting: list[Job], told: list[tuple[Factory, Vitals]]
) -> None:
    fleet, queue = a_view(told), a_queue(*waiting)
    served = sum(demand.served for demand in measure_demand(queue, fleet, NOON).demands)
    placed = pick_offer(queue, fleet, now=NOON)
    if served:
        assert placed is not None
    # Demand checks exclusions of only the first job of a class, and one job per lock.
    elif not any(job.exclusions or job.lock for job in waiting):
        assert placed is None


@NO_DEADLINE
@given(jobs, factories)
def test_class_is_never_served_beyond_its_jobs_and_fitting_seats(
    waiting: list[Job], told: list[tuple[Factory, Vitals]]
) -> None:
    fleet, queue = a_view(told), a_queue(*waiting)
    seen = measure_demand(queue, fleet, NOON)
    seats = sum(max(0, factory.slots) for factory, _ in told)
    assert sum(demand.served for demand in seen.demands) <= seats
    for demand in seen.demands:
        assert 0 <= demand.served <= min(demand.waiting, demand.free)
