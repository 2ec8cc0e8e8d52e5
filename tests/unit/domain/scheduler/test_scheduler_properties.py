"""Properties of the scheduler that hold for every queue and every fleet."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import (
    HEALTH_FLOOR,
    EngineSeats,
    Factory,
    Vitals,
    health_score,
    is_online,
)
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import Fit
from gigafactory.domain.job.job import (
    Checkpoint,
    Exclusion,
    Job,
    Priority,
    ShipRequest,
    Stage,
    Step,
)
from gigafactory.domain.manifest.capability import meets
from gigafactory.domain.queue.queued_job import QueuedJob
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.candidate import Candidate
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.placement import Placement
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.scheduler.scoring import choose_engine, find_rejection
from tests.support.builders import NOON, a_factory, a_job, after
from tests.support.small_fleet import (
    NO_DEADLINE,
    a_fleet,
    a_linux,
    a_queue,
    ask_for,
    granted,
    old_job,
    pick_job,
)

pytestmark = pytest.mark.slow

FACTORIES = ("f0", "f1", "f2", "f3")
AHEAD = timedelta(hours=3)
"""How much later than a low job a critical one may arrive and still go first."""
SHIPPING = {"stage": Stage.TESTING, "ship": ShipRequest(by="user:ann", commit=None, at=NOON)}

asks = st.builds(
    ask_for,
    st.sampled_from(["os:any", "os:mac", "os:linux"]),
    st.sampled_from(["os:any", "gpu", "node>=20", "factory:f0"]),
    engine=st.sampled_from([None, None, "codex"]),
    prefers_engine=st.sampled_from([(), ("codex", "claude")]),
    prefers=st.sampled_from([(), ("gpu", "factory:f1")]),
    repo=st.sampled_from([None, "notes"]),
)
jobs = st.lists(
    st.builds(
        lambda age, step, **fields: old_job(
            "", waited=timedelta(minutes=age), **(fields | (SHIPPING if step else {}))
        ),
        st.integers(0, 200),
        st.sampled_from([False, False, False, True]),
        ask=asks,
        product_id=st.sampled_from(["notes", "shop"]),
        priority=st.sampled_from(Priority),
        lock=st.sampled_from([None, None, "db"]),
        front=st.booleans(),
        exclusions=st.sampled_from([(), (), (Exclusion("f0", after(30)),)]),
        checkpoint=st.sampled_from(
            [None, None, Checkpoint(branch="b", commit="c", factory_id="f0")]
        ),
    ),
    max_size=12,
).map(lambda found: [replace(job, id=f"j{n:02}") for n, job in enumerate(found)])

engines = st.dictionaries(
    st.sampled_from(["claude", "codex"]),
    st.builds(
        EngineSeats, seats=st.integers(1, 2), cooling_until=st.sampled_from([None, after(60)])
    ),
)
factories = st.lists(
    st.tuples(
        st.builds(
            a_factory,
            capabilities=st.sampled_from(
                [("os:mac",), ("os:linux",), ("os:linux", "gpu"), ("os:mac", "node:20.1")]
            ),
            engines=engines,
            slots=st.integers(0, 3),
            products=st.sampled_from([("*",), ("*",), ("notes",)]),
            repos=st.sampled_from([(), ("notes",)]),
            may_clone=st.booleans(),
            cost_class=st.integers(0, 3),
            draining=st.sampled_from([False, False, False, True]),
        ),
        st.sampled_from([0, 0, 0, 50, 80, 100]),
        st.sampled_from([0.0, 0.0, 0.3, 0.9]),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda found: [
        (replace(factory, id=FACTORIES[n]), Vitals(last_seen=after(-silent), faults=faults))
        for n, (factory, silent, faults) in enumerate(found)
    ]
)
Told = list[tuple[Factory, Vitals]]


def a_view(told: Told, **seats: int) -> FleetState:
    fleet = FleetState(fleet_seats=seats)
    for factory, vitals in told:
        fleet.put(factory)
        fleet.record_vitals(factory.id, vitals)
    return fleet


def check_possible(job: Job, factory: Factory, vitals: Vitals, pick: Pick) -> None:
    """Check independently of the scheduler that a factory can run a job."""
    assert is_online(vitals, NOON)
    assert health_score(vitals, NOON) >= HEALTH_FLOOR - 0.01
    assert not factory.draining
    assert factory.admits(job.product_id)
    assert job.ask.repo is None or factory.may_clone or job.ask.repo in factory.repos
    assert all(e.factory_id != factory.id for e in job.exclusions)
    assert pick.step is job.step
    if job.step is Step.RUN:
        assert all(meets(need, factory.tokens) for need in job.ask.needs)
        assert pick.engine is not None
        assert factory.engines[pick.engine].is_ready(NOON)
        assert job.ask.engine in {None, pick.engine}
    else:
        assert pick.engine is None


def every_pick(queue: ReadyQueue, fleet: FleetState) -> list[Pick]:
    asked = [pick_job(queue, fleet, factory_id, now=NOON) for factory_id in FACTORIES]
    return [pick for pick in (*asked, pick_offer(queue, fleet, now=NOON)) if pick is not None]


@NO_DEADLINE
@given(jobs, factories)
def test_factory_is_never_picked_for_a_job_it_cannot_run(waiting: list[Job], told: Told) -> None:
    known = {job.id: job for job in waiting}
    able = {factory.id: (factory, vitals) for factory, vitals in told}
    for pick in every_pick(a_queue(*waiting), a_view(told)):
        check_possible(known[pick.job_id], *able[pick.factory_id], pick)


@NO_DEADLINE
@given(jobs, factories, st.randoms(use_true_random=False))
def test_order_of_insertion_does_not_change_the_picks(
    waiting: list[Job], told: Told, random: object
) -> None:
    first = every_pick(a_queue(*waiting), a_view(told))
    for things in (waiting, told):
        random.shuffle(things)  # type: ignore[attr-defined]
    assert every_pick(a_queue(*waiting), a_view(told)) == first


@NO_DEADLINE
@given(jobs, factories)
def test_offer_goes_to_the_best_factory_and_counts_the_others(
    waiting: list[Job], told: Told
) -> None:
    queue, fleet = a_queue(*waiting), a_view(told)
    pick = pick_offer(queue, fleet, now=NOON)
    if pick is None:
        return
    job = queue.find(pick.job_id)
    assert job is not None
    refused = [find_rejection(fleet, m, job.job_class, job, NOON) for m in fleet.members()]
    assert Counter(why.code for why in refused if why) == pick.decision.rejections
    able = one_by_one(Placement(queue, fleet, NOON), job)
    assert len(able) == sum(why is None for why in refused)
    assert (able[0].score, able[0].factory_id) == (pick.decision.score, pick.factory_id)
    runners = [(other.score, other.factory_id) for other in able[1:4]]
    assert [(r.score, r.factory_id) for r in pick.decision.runners_up] == runners


def one_by_one(this: Placement, job: QueuedJob) -> list[Candidate]:
    """Score every factory separately, without grouping equal ones."""
    found = []
    for member in this.fleet.members():
        fit = this.fleet.fit(job.job_class, member.pool)
        if find_rejection(this.fleet, member, job.job_class, job, this.now) is None:
            assert isinstance(fit, Fit)
            choice = choose_engine(fit, member.occupancy, this.fleet)
            assert choice is not None
            found.append(this.score(job, member, fit, choice))
    return sorted(found)


@NO_DEADLINE
@given(jobs, factories, st.integers(0, 3))
def test_applied_picks_never_exceed_slots_seats_and_locks(
    waiting: list[Job], told: Told, claude: int
) -> None:
    queue, fleet = a_queue(*waiting), a_view(told, claude=claude)
    known, running = {job.id: job for job in waiting}, dict[str, Job]()
    turns = [None, *FACTORIES]
    while picks := [pick for turn in turns if (pick := pick_for(turn, queue, fleet)) is not None]:
        pick = picks[len(running) % len(picks)]
        job = granted(known[pick.job_id], pick, NOON)
        queue.put(job)
        fleet.put_job(job)
        assert pick.job_id not in running
        running[job.id] = job
    leases = [job.lease for job in running.values() if job.lease is not None]
    keys = [key for lease in leases for key in lease.holds]
    assert len(keys) == len(set(keys))
    assert sum(lease.engine == "claude" for lease in leases) <= claude
    for factory, _ in told:
        here = [lease for lease in leases if lease.factory_id == factory.id]
        assert len(here) <= factory.slots
        for name, engine in factory.engines.items():
            assert sum(lease.engine == name for lease in here) <= engine.seats


def pick_for(turn: str | None, queue: ReadyQueue, fleet: FleetState) -> Pick | None:
    if turn is None:
        return pick_offer(queue, fleet, now=NOON)
    return pick_job(queue, fleet, turn, now=NOON)


@NO_DEADLINE
@given(jobs)
def test_capable_fleet_runs_every_job_and_locked_ones_one_at_a_time(
    waiting: list[Job],
) -> None:
    plain = [replace(job, ask=ask_for(), exclusions=()) for job in waiting]
    queue, fleet, known = a_queue(*plain), a_fleet(a_linux("f0", slots=9)), dict[str, Job]()
    known.update((job.id, job) for job in plain)
    for round_number in range(len(plain)):
        now = after(round_number)
        pick = pick_job(queue, fleet, "f0", now=now)
        assert pick is not None, "something waits that could run"
        job = granted(known.pop(pick.job_id), pick, now)
        for version in (job, replace(job, stage=Stage.REVIEW, lease=None)):
            queue.put(version)
            fleet.put_job(version)
            locked = version.lease is not None and any("lock/" in k for k in version.lease.holds)
            heads = [g.ready.head() for g in queue.classes()]
            lock = f"lock/{job.product_id}/db"
            assert not (locked and any(head is not None and head.lock == lock for head in heads))
    assert not known


@pytest.mark.parametrize("product_id", ["notes", "shop"])
@pytest.mark.parametrize("minutes", [20, 60])
def test_low_job_runs_eventually_under_sustained_critical_load(
    product_id: str, minutes: int
) -> None:
    fleet = a_fleet(a_linux("f0", repos=("notes",)))
    low = old_job("low", priority=Priority.LOW, ask=ask_for(repo="cold"))
    queue, known = a_queue(low), {low.id: low}
    for number in range(24 * 60 // minutes):
        now = NOON + timedelta(minutes=minutes * number)
        fleet.record_vitals("f0", Vitals(last_seen=now))
        for copy in range(3):
            urgent = a_critical(f"u{number:03}.{copy}", product_id, now)
            queue.put(urgent)
            known[urgent.id] = urgent
        pick = pick_job(queue, fleet, "f0", now=now)
        assert pick is not None
        if pick.job_id == low.id:
            assert now - NOON <= 3 * (AHEAD + timedelta(hours=1))
            return
        job = granted(known[pick.job_id], pick, now)
        done = now + timedelta(minutes=minutes)
        for version in (job, replace(job, stage=Stage.REVIEW, lease=None, updated_at=done)):
            queue.put(version)
            fleet.put_job(version)
    pytest.fail("the job still waits")


def a_critical(job_id: str, product_id: str, now: datetime) -> Job:
    return a_job(
        id=job_id,
        product_id=product_id,
        priority=Priority.CRITICAL,
        ask=ask_for(repo="notes"),
        created_at=now,
        stage_since=now,
        updated_at=now,
    )


@NO_DEADLINE
@given(jobs.filter(bool), factories, st.integers(2, 20))
def test_longer_queue_adds_no_heads_to_consider(waiting: list[Job], told: Told, times: int) -> None:
    short, long = a_queue(*waiting), a_queue(*waiting)
    for job in waiting:
        for copy in range(times):
            long.put(replace(job, id=f"{job.id}.{copy}", created_at=after(1)))
    one, other = every_pick(short, a_view(told)), every_pick(long, a_view(told))
    assert [pick.decision.considered for pick in one] == [
        pick.decision.considered for pick in other
    ]
    assert [pick.job_id for pick in one] == [pick.job_id for pick in other]


def test_products_share_a_seat_by_their_weights() -> None:
    fleet = a_fleet(a_linux("f0"))
    queue, known, served = ReadyQueue(), dict[str, Job](), Counter[str]()
    for number in range(40):
        for product_id in ("burst", "calm"):
            for copy in range(20 if product_id == "burst" and number == 0 else 1):
                job = a_job(id=f"{product_id}.{number:02}.{copy}", product_id=product_id)
                queue.put(job)
                known[job.id] = job
        now = NOON + timedelta(minutes=number)
        fleet.record_vitals("f0", Vitals(last_seen=now))
        pick = pick_job(queue, fleet, "f0", now=now)
        assert pick is not None
        job = granted(known[pick.job_id], pick, now)
        served[job.product_id] += 1
        ended = now + timedelta(minutes=1)
        for version in (job, replace(job, stage=Stage.REVIEW, lease=None, updated_at=ended)):
            queue.put(version)
            fleet.put_job(version)
    assert served == {"burst": 20, "calm": 20}
