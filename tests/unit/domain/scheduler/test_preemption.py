"""Preemption: an urgent job takes the seat of a less urgent one only if no seat is free."""

import random
from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.running_jobs import PREEMPTIONS_MAX, RunningJobs, may_preempt
from gigafactory.domain.job.job import Exclusion, Job, Preemption, Priority, Result, Stage, Step
from gigafactory.domain.job.lease import expire, hand_back
from gigafactory.domain.scheduler.explain import explain
from gigafactory.domain.scheduler.preemption import PreemptionPick, pick_preemption, preempt_for
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from tests.support.builders import (
    NOON,
    a_checkpoint,
    a_job,
    a_lease,
    a_running_job,
    a_shipping_job,
    after,
)
from tests.support.scheduler_world import NOTICE_S, Arrival, SchedulerSimulation
from tests.support.small_fleet import a_linux, a_queue, an_offer, ask_for

CRITICAL = frozenset({Priority.CRITICAL})
HOUR = 3600.0


def urgent(job_id: str = "urgent", **fields: object) -> Job:
    return a_job(id=job_id, name=job_id, **({"priority": Priority.CRITICAL} | fields))


def runs(job_id: str, factory_id: str = "linux-1", **fields: object) -> Job:
    """Return a low-priority job on a factory's only seat."""
    lease = a_lease(
        factory_id=factory_id,
        run_id=f"{job_id}.1",
        holds=(f"slot/{factory_id}/0", f"seat/{factory_id}/claude/0"),
    )
    return a_running_job(id=job_id, **({"lease": lease, "priority": Priority.LOW} | fields))


def busy(*running: Job, factories: tuple[Factory, ...] = (), **seats: int) -> FleetState:
    names = sorted({job.lease.factory_id for job in running if job.lease is not None})
    fleet = FleetState(fleet_seats=seats)
    for factory in factories or [a_linux(name) for name in names]:
        fleet.put(factory)
        fleet.record_vitals(factory.id, Vitals(last_seen=NOON))
    for job in running:
        fleet.put_job(job)
    return fleet


def picked(fleet: FleetState, *jobs: Job, now_s: float = 0.0) -> PreemptionPick | None:
    return pick_preemption(a_queue(*jobs), fleet, now=after(now_s), urgent=CRITICAL)


def test_critical_job_without_a_seat_preempts_a_less_urgent_one() -> None:
    assert picked(busy(runs("low")), urgent()) == PreemptionPick("urgent", "low", "linux-1")


@pytest.mark.parametrize(
    "running",
    [
        runs("equal", priority=Priority.CRITICAL),
        runs("twice", preempted=PREEMPTIONS_MAX),
        runs("asked", preemption=Preemption(by="user:ann", reason="", deadline=after(60))),
        runs("shipping", stage=Stage.TESTING, lease=a_lease(factory_id="linux-1", step=Step.SHIP)),
    ],
    ids=lambda job: job.id,
)
def test_ineligible_running_jobs_are_never_preempted(running: Job) -> None:
    assert picked(busy(running), urgent()) is None


@pytest.mark.parametrize("priority", [Priority.HIGH, Priority.MEDIUM, Priority.LOW])
def test_only_critical_jobs_preempt_by_default(priority: Priority) -> None:
    job = urgent(priority=priority)
    assert picked(busy(runs("low", priority=Priority.LOW)), job) is None
    found = pick_preemption(
        a_queue(job), busy(runs("low")), now=NOON, urgent=frozenset({Priority.HIGH})
    )
    assert (found is not None) is (priority is Priority.HIGH)


def test_least_urgent_and_most_recently_started_job_is_preempted() -> None:
    def lasting(job_id: str, seconds: float, **fields: object) -> Job:
        job = runs(job_id, job_id, **fields)
        assert job.lease is not None
        return replace(job, lease=replace(job.lease, granted_at=after(-seconds)))

    fleet = busy(
        lasting("high", 1, priority=Priority.HIGH), lasting("old", 900), lasting("young", 60)
    )
    assert picked(fleet, urgent()) == PreemptionPick("urgent", "young", "young")


def test_no_job_is_preempted_while_a_seat_is_free_freed_or_offered() -> None:
    low = runs("low")
    free = busy(low, factories=(a_linux("linux-1"), a_linux("linux-2")))
    assert picked(free, urgent()) is None
    asked, first = preempt_for(low, urgent(), actor="system:evictor", now=NOON)
    assert picked(busy(asked.after, runs("other", "linux-2")), first.after) is None
    offered = urgent(offer=an_offer("linux-1"))
    assert picked(busy(low), offered, now_s=60.0) is None, "it has lapsed, and is taken back first"


def test_one_job_is_preempted_for_each_urgent_job_without_a_seat() -> None:
    low = runs("low")
    asked, first = preempt_for(low, urgent("first"), actor="system:evictor", now=NOON)
    fleet = busy(asked.after, runs("other", "linux-2"))
    assert picked(fleet, first.after, urgent("second")) == PreemptionPick(
        "second", "other", "linux-2"
    )


def test_excluded_urgent_job_does_not_hold_up_the_next() -> None:
    shy = urgent("a", exclusions=(Exclusion("linux-1", after(30)),))
    fleet = busy(runs("low"))
    assert picked(fleet, shy, urgent("b")) == PreemptionPick("b", "low", "linux-1")
    assert picked(fleet, shy) is None


def test_job_on_an_unusable_seat_is_not_preempted() -> None:
    low = runs("low")
    assert picked(busy(low), urgent(ask=ask_for("gpu"))) is None
    assert picked(busy(low), urgent(ask=ask_for("factory:mac-9"))) is None
    assert picked(busy(low), urgent(exclusions=(Exclusion("linux-1", after(30)),))) is None
    away = busy(low)
    assert picked(away, urgent(), now_s=500.0) is None
    resting = a_linux(engines={"claude": EngineSeats(cooling_until=after(60))})
    assert picked(busy(low, factories=(resting,)), urgent()) is None
    shrunk = busy(low, runs("more"), factories=(a_linux(),))
    assert picked(shrunk, urgent()) is None


def test_job_of_another_engine_is_preempted_only_for_its_slot() -> None:
    both = {"claude": EngineSeats(), "codex": EngineSeats()}
    codex = replace(runs("low"), lease=a_lease(factory_id="linux-1", engine="codex", holds=()))
    ask = ask_for(engine="claude")
    assert picked(busy(codex, factories=(a_linux(engines=both),)), urgent(ask=ask)) is not None
    fuller = busy(
        codex, runs("c", priority=Priority.CRITICAL), factories=(a_linux(engines=both, slots=2),)
    )
    assert picked(fuller, urgent(ask=ask)) is None
    elsewhere = runs("elsewhere", "linux-2", priority=Priority.CRITICAL)
    fleet_wide = busy(
        codex, elsewhere, factories=(a_linux(engines=both), a_linux("linux-2")), claude=1
    )
    assert picked(fleet_wide, urgent(ask=ask)) is None
    assert picked(busy(runs("low"), claude=1), urgent(ask=ask)) is not None


def test_ship_step_needs_only_a_slot() -> None:
    shipping = urgent(stage=Stage.TESTING, ship=None)
    ready = replace(shipping, ship=a_shipping_job().ship, checkpoint=a_checkpoint())
    assert picked(busy(runs("low")), ready) == PreemptionPick("urgent", "low", "linux-1")


def test_halted_product_preempts_no_job() -> None:
    fleet = busy(runs("low"))
    fleet.put_switch(HaltSwitch(product_id="notes", halted=True, by="user:ann", at=NOON))
    assert picked(fleet, urgent()) is None


def test_preemption_writes_events_for_both_jobs_and_victim_keeps_its_place() -> None:
    low = runs("low", checkpoint=a_checkpoint("abc"), attempts=1)
    asked, first = preempt_for(low, urgent(), actor="system:evictor", now=NOON)
    assert asked.after.preemption is not None
    assert asked.after.preemption.deadline == after(60)
    assert [(e.type, e.actor) for e in (*asked.events, *first.events)] == [
        ("preempt_requested", "system:evictor"),
        ("preempting", "system:evictor"),
    ]
    assert asked.events[0].data["by"] == "job:urgent"
    assert first.events[0].data == {"evicts": "low", "factoryId": "linux-1"}
    assert first.after.front, "what is left goes to the one that it was left for"
    back = hand_back(asked.after, Result.PREEMPTED, "ok", actor="factory:linux-1", now=after(20))
    gone = expire(asked.after, now=after(60))
    for ended in (back, gone):
        assert ended.events[0].data["by"] == "job:urgent"
        assert (ended.after.front, ended.after.preempted, ended.after.attempts) == (True, 1, 1)
        assert ended.after.head == "abc"


def test_explanation_names_the_preempted_and_the_preempting_job() -> None:
    low = runs("low")
    asked, first = preempt_for(low, urgent(), actor="system:evictor", now=NOON)
    fleet, queue = busy(asked.after), a_queue(first.after)
    why = explain(first.after, queue, fleet, NOON)
    assert why.summary == "low job low is being preempted on linux-1, by 12:01:00 UTC"
    assert "to hand it back for job:urgent" in explain(asked.after, queue, fleet, NOON).summary


def test_products_do_not_learn_the_names_of_each_others_jobs_by_preemption() -> None:
    low = runs("secret-low", product_id="bravo")
    asked, first = preempt_for(low, urgent(), actor="system:evictor", now=NOON)
    assert asked.after.preemption is not None
    assert asked.after.preemption.reason == "critical job of another product found no free seat"
    assert first.events[0].data == {"factoryId": "linux-1"}
    why = explain(first.after, a_queue(first.after), busy(asked.after), NOON)
    assert (
        why.summary == "low job of another product is being preempted on linux-1, by 12:01:00 UTC"
    )


def test_job_that_no_longer_runs_is_not_being_preempted() -> None:
    known = RunningJobs()
    low = runs("low")
    asked, first = preempt_for(low, urgent(), actor="system:evictor", now=NOON)
    known.put(low)
    known.put(asked.after)
    assert known.preempted_for("urgent") == asked.after
    known.put(hand_back(asked.after, Result.PREEMPTED, "", actor="f", now=NOON).after)
    assert (known.preempted_for("urgent"), list(known.on_factory("linux-1"))) == (None, [])
    known.put(first.after)
    known.put(runs("a", preemption=Preemption(by="user:ann", reason="", deadline=after(60))))
    known.put(runs("b"))
    known.forget("a")
    assert [job.id for job in known.on_factory("linux-1")] == ["b"]
    assert not may_preempt(first.after, 0)


@pytest.mark.parametrize("seed", range(30))
def test_critical_jobs_start_at_once_and_no_job_starves_over_hours(seed: int) -> None:
    rng = random.Random(seed)
    background = [
        Arrival(
            at_s=rng.uniform(0.0, 3 * HOUR),
            lasts_s=rng.uniform(600.0, HOUR),
            priority=rng.choice((Priority.HIGH, Priority.MEDIUM, Priority.LOW)),
        )
        for _ in range(30)
    ]
    critical = [
        Arrival(
            at_s=at * 900.0 + rng.uniform(0.0, 300.0),
            lasts_s=rng.uniform(60.0, 300.0),
            priority=Priority.CRITICAL,
        )
        for at in range(12)
    ]
    fleet = [a_linux("f0"), a_linux("f1"), a_linux("f2")]
    flow = SchedulerSimulation(fleet, [*background, *critical], urgent=CRITICAL).run(40 * HOUR)
    assert len(flow.done) == len(background) + len(critical)
    ranks = {job_id: arrival.priority.rank for job_id, arrival in flow.arrivals.items()}
    assert flow.preemptions, "there was need"
    for _, found in flow.preemptions:
        assert ranks[found.job_id] == 0 < ranks[found.victim_id]
    assert (
        max(Counter(found.victim_id for _, found in flow.preemptions).values()) <= PREEMPTIONS_MAX
    )
    spared = all(flow.jobs[i].preempted < PREEMPTIONS_MAX for i in flow.jobs)
    waits = [wait for i, wait in flow.waits().items() if ranks[i] == 0]
    assert max(waits) <= NOTICE_S or not spared


def test_critical_job_without_preemption_waits_for_a_running_one() -> None:
    low = Arrival(at_s=0.0, lasts_s=HOUR, priority=Priority.LOW)
    critical = Arrival(at_s=60.0, lasts_s=60.0, priority=Priority.CRITICAL)
    waits, ends = [], []
    for allowed in (frozenset[Priority](), CRITICAL):
        flow = SchedulerSimulation([a_linux("f0")], [low, critical], urgent=allowed).run(2 * HOUR)
        waits.append(flow.waits()["job-000001"])
        ends.append(flow.done["job-000000"])
    assert waits == [HOUR - 60.0, NOTICE_S]
    assert ends[1] == pytest.approx(HOUR + 60.0), "it goes on where it was"


def test_preempted_job_gets_a_minute_to_checkpoint() -> None:
    asked, _ = preempt_for(runs("low"), urgent(), actor="system:evictor", now=NOON)
    assert asked.after.preemption is not None
    assert asked.after.preemption.deadline - NOON == timedelta(seconds=60)
