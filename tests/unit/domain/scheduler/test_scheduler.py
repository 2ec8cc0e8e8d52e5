"""The scheduler: the next job for a factory, and the best factory for a job."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Pressure, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import Exclusion, Priority, ShipRequest, Stage, Step
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.scheduler import NO_JOBS, pick_offer
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product, Weights
from tests.support.builders import (
    NOON,
    a_checkpoint,
    a_factory,
    a_job,
    a_lease,
    a_running_job,
    after,
)
from tests.support.small_fleet import (
    a_fleet,
    a_linux,
    a_queue,
    an_offer,
    ask_for,
    old_job,
    pick_job,
)

HOUR = timedelta(hours=1)
BOTH = {"claude": EngineSeats(), "codex": EngineSeats()}


def pulled(queue: ReadyQueue, fleet: FleetState, factory_id: str = "mac-1") -> str | None:
    pick = pick_job(queue, fleet, factory_id, now=NOON)
    return pick.job_id if pick else None


def offered(
    queue: ReadyQueue,
    fleet: FleetState,
    only: frozenset[str] | None = None,
    skip: frozenset[str] = NO_JOBS,
) -> tuple[str, str] | None:
    pick = pick_offer(queue, fleet, now=NOON, only=only, skip=skip)
    return (pick.job_id, pick.factory_id) if pick else None


def test_factory_gets_a_job_with_engine_and_seats() -> None:
    pick = pick_job(a_queue(a_job()), a_fleet(a_factory(), claude=5), "mac-1", now=NOON)
    assert pick is not None
    assert (pick.job_id, pick.factory_id, pick.engine) == ("job-1", "mac-1", "claude")
    assert pick.step is Step.RUN
    assert pick.seats == ("slot/mac-1/0", "seat/mac-1/claude/0", "fleet-seat/claude/0")


def test_unknown_factory_or_empty_queue_gets_no_job() -> None:
    fleet = a_fleet(a_factory())
    assert pulled(a_queue(a_job()), fleet, "mac-9") is None
    assert pulled(a_queue(), fleet) is None
    assert offered(a_queue(), fleet) is None
    assert offered(a_queue(a_job()), FleetState()) is None


def test_offline_sick_or_draining_factory_gets_no_job() -> None:
    queue = a_queue(a_job())
    for fleet in (a_fleet(a_factory(), now=after(-90)), a_fleet(a_factory(draining=True))):
        assert pulled(queue, fleet) is None
        assert offered(queue, fleet) is None
    sick = a_fleet(a_factory())
    sick.record_vitals("mac-1", Vitals(last_seen=NOON, faults=0.9))
    assert pulled(queue, sick) is None
    assert offered(queue, sick) is None


def test_fading_factory_ranks_after_fresh_ones() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b"), a_linux("full", slots=0))
    for name in ("a", "full"):
        fleet.record_vitals(name, Vitals(last_seen=after(-50)))
    assert offered(a_queue(a_job()), fleet) == ("job-1", "b")
    fleet.remove("b")
    pick = pick_offer(a_queue(a_job()), fleet, now=NOON)
    assert pick is not None
    assert pick.factory_id == "a"
    assert pick.decision.rejections == {"busy": 1}
    assert pulled(a_queue(a_job()), fleet, "a") == "job-1"


def test_full_factory_gets_no_job() -> None:
    queue, fleet = a_queue(a_job()), a_fleet(a_factory(slots=1))
    fleet.put_job(a_running_job(id="other"))
    assert pulled(queue, fleet) is None
    assert offered(queue, fleet) is None


def test_factory_gets_no_job_that_its_free_engines_cannot_run() -> None:
    queue = a_queue(a_job(ask=ask_for(engine="codex")))
    fleet = a_fleet(a_factory(slots=3, engines=BOTH))
    fleet.put_job(a_running_job(id="other", lease=a_lease(engine="codex", holds=())))
    assert pulled(queue, fleet) is None
    assert offered(queue, fleet) is None


def test_factories_with_busy_engines_are_counted_as_busy() -> None:
    fleet = a_fleet(*(a_linux(name, slots=2) for name in ("a", "b")))
    fleet.put_job(a_running_job(id="other", lease=a_lease(factory_id="a", holds=())))
    pick = pick_offer(a_queue(a_job()), fleet, now=NOON)
    assert pick is not None
    assert (pick.factory_id, pick.decision.rejections) == ("b", {"busy": 1})


def test_seats_with_held_keys_are_not_given() -> None:
    fleet = a_fleet(a_factory(slots=1))
    fleet.seat_map.held_keys["slot/mac-1/0"] = "unheard-of"
    assert pulled(a_queue(a_job()), fleet) is None


def test_first_free_preferred_engine_is_taken() -> None:
    fleet = a_fleet(a_factory(slots=3, engines=BOTH))
    queue = a_queue(a_job(ask=ask_for(prefers_engine=("codex", "claude"))))
    first = pick_job(queue, fleet, "mac-1", now=NOON)
    assert first is not None
    assert first.engine == "codex"
    fleet.put_job(a_running_job(id="other", lease=a_lease(engine="codex")))
    second = pick_job(queue, fleet, "mac-1", now=NOON)
    assert second is not None
    assert second.engine == "claude"


def test_engine_without_a_fleet_wide_seat_is_not_taken() -> None:
    fleet = a_fleet(a_factory(engines=BOTH), codex=0)
    pick = pick_job(
        a_queue(a_job(ask=ask_for(prefers_engine=("codex",)))), fleet, "mac-1", now=NOON
    )
    assert pick is not None
    assert pick.engine == "claude"


def test_ship_step_needs_a_slot_and_no_engine() -> None:
    ship = ShipRequest(by="user:ann", commit=None, at=NOON)
    queue = a_queue(a_job(stage=Stage.TESTING, ship=ship, ask=ask_for("gpu", repo="notes")))
    pick = pick_offer(queue, a_fleet(a_factory(engines={})), now=NOON)
    assert pick is not None
    assert (pick.engine, pick.step, pick.seats) == (None, Step.SHIP, ("slot/mac-1/0",))


def test_critical_job_goes_first() -> None:
    queue = a_queue(*(a_job(id=priority, priority=priority) for priority in Priority))
    fleet = a_fleet(a_factory())
    assert pulled(queue, fleet) == "critical"
    assert offered(queue, fleet) == ("critical", "mac-1")


def test_job_rises_one_class_for_each_hour_of_waiting() -> None:
    fleet = a_fleet(a_factory())
    high = old_job("high", priority=Priority.HIGH)
    low = old_job("low", waited=3 * HOUR, priority=Priority.LOW)
    assert pulled(a_queue(high, low), fleet) == "low"
    young = old_job("low", waited=1.9 * HOUR, priority=Priority.LOW)
    assert pulled(a_queue(high, young), fleet) == "high"


def test_promoted_job_goes_first_within_its_class_only() -> None:
    fleet = a_fleet(a_factory())
    old = old_job("old", waited=HOUR / 2, product_id="shop")
    queue = a_queue(old, old_job("promoted", front=True))
    assert pulled(queue, fleet) == "promoted"
    queue.put(old_job("urgent", priority=Priority.HIGH))
    assert pulled(queue, fleet) == "urgent"


def test_product_with_less_recent_usage_goes_first() -> None:
    fleet = a_fleet(a_factory(slots=4))
    queue = a_queue(old_job("old", waited=HOUR / 2), old_job("new", product_id="shop"))
    assert pulled(queue, fleet) == "old"
    fleet.put_job(a_running_job(id="running"))
    assert pulled(queue, fleet) == "new"


def test_product_with_a_larger_share_gets_more() -> None:
    fleet = a_fleet(a_factory(slots=9, engines={"claude": EngineSeats(seats=9)}))
    fleet.put_product(Product(id="notes", share=4.0))
    fleet.put_job(a_running_job(id="a", lease=a_lease(holds=())))
    fleet.put_job(a_running_job(id="b", lease=a_lease(holds=())))
    fleet.put_job(a_running_job(id="c", product_id="shop", lease=a_lease(holds=())))
    queue = a_queue(old_job("notes"), old_job("shop", product_id="shop"))
    assert pulled(queue, fleet) == "notes"


def test_better_fit_goes_first_within_a_product_and_then_the_older_job() -> None:
    fleet = a_fleet(a_factory(repos=("notes",)))
    warm = old_job("warm", ask=ask_for(repo="notes"))
    cold = old_job("cold", ask=ask_for(repo="shop"))
    assert pulled(a_queue(warm, cold), fleet) == "warm"
    older = replace(cold, stage_since=after(-1200), created_at=after(-1200))
    assert pulled(a_queue(warm, older), fleet) == "cold"
    equal = old_job("equal", ask=ask_for(repo="notes", budget_nano_usd=55 * 10**8))
    assert pulled(a_queue(replace(equal, created_at=after(-1)), warm), fleet) == "equal"


def test_least_loaded_then_cheapest_then_first_factory_is_offered_the_job() -> None:
    two = {"slots": 2, "engines": {"claude": EngineSeats(seats=2)}}
    fleet = a_fleet(a_linux("a", **two), a_linux("b", **two), a_linux("c", **two))
    fleet.put_job(a_running_job(lease=a_lease(factory_id="a", holds=())))
    assert offered(a_queue(a_job(id="x")), fleet) == ("x", "b")
    fleet.put(a_linux("c", cost_class=0, **two))
    assert offered(a_queue(a_job(id="x")), fleet) == ("x", "c")
    fleet.put_product(Product(id="notes", weights=Weights(cost_fit=0.0)))
    assert offered(a_queue(a_job(id="x")), fleet) == ("x", "c")


def test_factory_with_the_checkpoint_or_preference_is_offered_the_job_first() -> None:
    fleet = a_fleet(*(a_linux(name) for name in ("a", "b", "c")))
    kept = a_job(checkpoint=a_checkpoint(factory_id="b"))
    assert offered(a_queue(kept), fleet) == ("job-1", "b")
    liked = a_job(ask=ask_for(prefers=("factory:c",)))
    assert offered(a_queue(liked), fleet) == ("job-1", "c")
    gone = a_job(checkpoint=a_checkpoint(factory_id="gone"))
    assert offered(a_queue(gone), fleet) == ("job-1", "a")
    fleet.record_vitals("c", Vitals(last_seen=after(-200)))
    assert offered(a_queue(liked), fleet) == ("job-1", "a")
    fleet.put(a_linux("b", draining=True))
    assert offered(a_queue(kept), fleet) == ("job-1", "a")


def test_job_that_requires_a_factory_goes_only_there() -> None:
    fleet = a_fleet(*(a_linux(name) for name in ("a", "b", "c")), a_factory())
    queue = a_queue(a_job(ask=ask_for("factory:b", "os:linux")))
    assert pulled(queue, fleet, "a") is None
    assert pulled(queue, fleet, "b") == "job-1"
    pick = pick_offer(queue, fleet, now=NOON)
    assert pick is not None
    assert pick.factory_id == "b"
    assert pick.decision.rejections == {"capability": 3}
    both = a_queue(a_job(ask=ask_for("factory:b", "factory:a")))
    assert offered(both, fleet) is None


def test_rejections_of_a_required_factory_name_its_fault() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b"))
    job = a_job(ask=ask_for("factory:b"), offer=an_offer("b"))
    fleet.put_job(job)
    pick = pick_job(a_queue(job), fleet, "b", now=NOON)
    assert pick is not None
    assert pick.decision.rejections == {"busy": 1, "capability": 1}


def test_factory_with_demanded_capabilities_is_kept_free() -> None:
    mac = a_factory(id="a", capabilities=("os:mac", "has:xcode"), slots=1)
    fleet = a_fleet(mac, a_linux("b"))
    xcode = a_job(id="x", ask=ask_for("has:xcode"), not_before=after(60))
    plain = a_job(id="y")
    assert offered(a_queue(xcode, plain), fleet) == ("y", "b")
    assert pulled(a_queue(replace(xcode, not_before=None), plain), fleet, "a") == "x"


def test_excluded_factory_is_passed_over_and_counted() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b"))
    queue = a_queue(a_job(exclusions=(Exclusion("a", after(30)),)))
    pick = pick_offer(queue, fleet, now=NOON)
    assert pick is not None
    assert pick.factory_id == "b"
    assert pick.decision.rejections == {"excluded": 1}
    fleet.remove("b")
    assert offered(queue, fleet) is None
    queue.put(old_job("next"))
    assert offered(queue, fleet) == ("next", "a")


def test_offers_go_only_to_reachable_factories() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b"), a_factory())
    queue = a_queue(a_job())
    pick = pick_offer(queue, fleet, now=NOON, only=frozenset({"b"}))
    assert pick is not None
    assert pick.factory_id == "b"
    assert pick.decision.rejections == {"unreachable": 2}
    assert offered(queue, fleet, only=frozenset()) is None
    assert offered(queue, fleet, skip=frozenset({"job-1"})) is None


def test_offered_job_is_not_offered_again() -> None:
    fleet, job = a_fleet(a_linux("a"), a_linux("b")), a_job(offer=an_offer("a"))
    fleet.put_job(job)
    assert offered(a_queue(job), fleet) is None
    assert pulled(a_queue(job), fleet, "b") is None


def test_claiming_factory_gets_the_job_offered_to_it() -> None:
    fleet, job = a_fleet(a_linux("a")), old_job("mine", offer=an_offer("a"))
    fleet.put_job(job)
    queue = a_queue(job, old_job("other", waited=HOUR))
    pick = pick_job(queue, fleet, "a", now=NOON)
    assert pick is not None
    assert (pick.job_id, pick.engine) == ("mine", "claude")
    assert pick_job(queue, fleet, "a", now=NOON, skip=frozenset({"mine"})) is None


def test_offered_ship_step_needs_no_engine() -> None:
    ship = ShipRequest(by="user:ann", commit=None, at=NOON)
    job = a_job(stage=Stage.TESTING, ship=ship, offer=an_offer(engine=None, step=Step.SHIP))
    fleet = a_fleet(a_factory(engines={}))
    fleet.put_job(job)
    assert pulled(a_queue(job), fleet) == "job-1"


@pytest.mark.parametrize(
    "engines",
    [
        {"codex": EngineSeats()},
        {"claude": EngineSeats(unavailable="not logged in"), "codex": EngineSeats()},
    ],
)
def test_offer_whose_engine_is_gone_gives_way_to_other_work(
    engines: dict[str, EngineSeats],
) -> None:
    job = old_job("mine", offer=an_offer(), ask=ask_for(prefers_engine=("claude",)))
    fleet = a_fleet(a_factory(slots=2, engines=engines))
    fleet.put_job(job)
    assert pulled(a_queue(job, old_job("other")), fleet) == "other"


def test_offer_that_the_factory_can_no_longer_take_gives_way() -> None:
    job = old_job("mine", offer=an_offer(), ask=ask_for("gpu"))
    assert pulled(a_queue(job, old_job("other")), a_fleet(a_factory())) == "other"


def test_halted_product_or_fleet_gets_no_job() -> None:
    fleet = a_fleet(a_factory(slots=3))
    queue = a_queue(old_job("mine"), old_job("theirs", product_id="shop"))
    queue.put(old_job("kept", offer=an_offer()))
    switch = HaltSwitch(product_id="notes", halted=True, by="user:ann", at=NOON)
    fleet.put_switch(switch)
    assert pulled(queue, fleet) == "theirs"
    assert offered(queue, fleet) == ("theirs", "mac-1")
    fleet.put_switch(replace(switch, product_id="*"))
    assert pulled(queue, fleet) is None
    assert offered(queue, fleet) is None


def test_decision_is_recorded_in_full_as_plain_json() -> None:
    fleet = a_fleet(
        *(a_linux(name) for name in ("a", "b", "c", "d", "e")),
        a_linux("full", slots=0),
        a_factory(),
    )
    fleet.record_vitals("e", Vitals(last_seen=NOON, pressure=Pressure(cpu=1.0)))
    fleet.put(a_linux("away"))
    pick = pick_job(a_queue(a_job(ask=ask_for("os:linux"))), fleet, "a", now=NOON)
    assert pick is not None
    result = pick.decision.to_json()
    assert msgspec.json.decode(msgspec.json.encode(result)) == result
    assert result["matched"] == ["os:linux"]
    assert result["mode"] == "pull"
    assert [runner["factoryId"] for runner in result["runnersUp"]] == ["b", "c", "d"]
    assert result["rejections"] == {"busy": 1, "capability": 1, "offline": 1}
    assert result["terms"]["starvation"] == {"value": 1.0, "weight": -1.5}
    assert (result["considered"], result["propensity"]) == (1, 1.0)
    assert result["score"] == pytest.approx(
        sum(term["value"] * term["weight"] for term in result["terms"].values()), abs=1e-3
    )


def test_job_behind_a_lock_is_picked_when_the_lock_is_freed() -> None:
    fleet = a_fleet(a_factory(slots=2))
    queue = a_queue(old_job("a", lock="db"))
    queue.take_lock("lock/notes/db", "x")
    assert pulled(queue, fleet) is None
    assert offered(queue, fleet) is None
    queue.free_lock("lock/notes/db", "x")
    assert pulled(queue, fleet) == "a"
