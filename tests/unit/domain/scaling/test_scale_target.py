"""The wanted number of factories of a shape: enough for waiting jobs, and zero without any."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import Fit, match
from gigafactory.domain.job.job import Job, Priority, ShipRequest, Stage, Step
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.domain.scaling.demand import Demand, DemandSnapshot, measure_demand
from gigafactory.domain.scaling.scale_target import FactoryState, ScaleTarget, Shape, scale_targets
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import NOON, a_job, a_lease, a_running_job, after
from tests.support.small_fleet import NO_DEADLINE, a_fleet, a_linux, a_queue, ask_for, old_job

LINUX = Shape(
    name="linux",
    factories="linux-",
    capabilities=("os:linux",),
    engines={"claude": 1},
    maximum=10,
)
MAC = replace(LINUX, name="mac", factories="mac-", capabilities=("os:mac", "has:xcode"))


def seen(fleet: FleetState, *jobs: Job, shapes: tuple[Shape, ...] = (LINUX,)) -> list[ScaleTarget]:
    for job in jobs:
        fleet.put_job(job)
    return scale_targets(shapes, measure_demand(a_queue(*jobs), fleet, NOON), fleet)


def wanted(fleet: FleetState, *jobs: Job, shape: Shape = LINUX) -> int:
    (one,) = seen(fleet, *jobs, shapes=(shape,))
    return one.wanted


def some(count: int, **fields: object) -> list[Job]:
    return [a_job(id=f"j{n}", **fields) for n in range(count)]


def at_work(name: str, job_id: str = "r") -> Job:
    return a_running_job(id=job_id, lease=a_lease(factory_id=name))


def test_one_factory_is_wanted_for_each_waiting_job() -> None:
    assert wanted(a_fleet()) == 0
    assert wanted(a_fleet(), *some(1)) == 1
    assert wanted(a_fleet(), *some(3)) == 3


def test_wanted_number_stays_within_minimum_and_maximum() -> None:
    assert wanted(a_fleet(), *some(20)) == 10
    assert wanted(a_fleet(), shape=replace(LINUX, minimum=2)) == 2


def test_warm_factories_are_wanted_in_addition_to_needed_ones() -> None:
    warm = replace(LINUX, warm=2)
    assert wanted(a_fleet(), shape=warm) == 2
    assert wanted(a_fleet(), *some(1), shape=warm) == 3


def test_working_factory_is_wanted_and_an_idle_one_is_not() -> None:
    fleet = a_fleet(a_linux("linux-1"), a_linux("linux-2"), a_linux("other"))
    (one,) = seen(fleet, at_work("linux-2"))
    assert (one.wanted, one.needed, one.more) == (1, 1, 0)
    assert [(each.id, each.state, each.jobs) for each in one.factories] == [
        ("linux-1", FactoryState.IDLE, 0),
        ("linux-2", FactoryState.BUSY, 1),
    ]


def test_factory_that_will_take_a_waiting_job_is_wanted() -> None:
    (one,) = seen(a_fleet(a_linux("linux-1")), *some(2))
    assert (one.needed, one.more, one.wanted, one.waiting) == (1, 1, 2, 1)


def test_job_with_a_free_seat_elsewhere_needs_no_new_factory() -> None:
    assert wanted(a_fleet(a_linux("other")), *some(1)) == 0


def test_wanted_number_accounts_for_slots_and_engine_seats() -> None:
    wide = replace(LINUX, slots=4, engines={"claude": 4})
    assert wanted(a_fleet(), *some(9), shape=wide) == 3
    scarce = replace(LINUX, slots=4, engines={"claude": 1, "codex": 3})
    assert wanted(a_fleet(), *some(9), shape=scarce) == 3
    picky = replace(LINUX, slots=4, engines={"claude": 1})
    assert wanted(a_fleet(), *some(3), shape=picky) == 3


def test_remaining_slots_serve_the_next_class() -> None:
    wide = replace(LINUX, slots=3, engines={"claude": 3})
    jobs = [*some(2), a_job(id="high", priority=Priority.HIGH)]
    assert wanted(a_fleet(), *jobs, shape=wide) == 1


def test_ship_step_needs_no_engine() -> None:
    ship = ShipRequest(by="user:ann", commit=None, at=NOON)
    shipping = a_job(stage=Stage.TESTING, ship=ship)
    assert wanted(a_fleet(), shipping, shape=replace(LINUX, engines={})) == 1


def test_job_that_no_shape_can_run_wants_no_factory() -> None:
    for job in (
        a_job(ask=ask_for("has:figma")),
        a_job(ask=ask_for(engine="codex")),
        a_job(ask=ask_for("factory:linux-1")),
        a_job(product_id="shop"),
    ):
        assert wanted(a_fleet(), job, shape=replace(LINUX, products=("notes",))) == 0
    assert wanted(a_fleet(), *some(1), shape=replace(LINUX, engines={"claude": 0})) == 0


def test_shape_runs_jobs_of_its_repos() -> None:
    job = a_job(ask=ask_for("repo:notes", repo="notes"))
    assert wanted(a_fleet(), job) == 0
    assert wanted(a_fleet(), job, shape=replace(LINUX, repos=("notes",), may_clone=False)) == 1


def test_halted_fleet_wants_no_factory() -> None:
    fleet = a_fleet()
    fleet.put_switch(HaltSwitch(product_id="*", halted=True, by="user:ann", at=NOON))
    assert wanted(fleet, *some(3)) == 0


def test_job_counts_for_the_first_shape_that_can_run_it() -> None:
    first, second = seen(a_fleet(), *some(2), shapes=(LINUX, MAC))
    assert (first.wanted, second.wanted) == (2, 0)
    first, second = seen(a_fleet(), a_job(ask=ask_for("has:xcode")), shapes=(LINUX, MAC))
    assert (first.wanted, second.wanted) == (0, 1)


def test_jobs_beyond_a_maximum_count_for_the_next_shape() -> None:
    small = replace(LINUX, maximum=2)
    first, second = seen(a_fleet(), *some(3), shapes=(small, MAC))
    assert (first.wanted, first.waiting, second.wanted, second.waiting) == (2, 2, 1, 1)


def test_wanted_number_stays_within_the_fleet_wide_seats() -> None:
    assert wanted(a_fleet(claude=2), *some(5)) == 2
    assert wanted(a_fleet(codex=0), *some(5)) == 5


def test_backlog_lets_jobs_in_time_share_a_factory() -> None:
    patient = replace(LINUX, backlog=4)
    assert wanted(a_fleet(), *some(4), shape=patient) == 1
    assert wanted(a_fleet(), *some(5), shape=patient) == 2
    there = a_fleet(a_linux("linux-1"))
    assert wanted(there, at_work("linux-1"), *some(3), shape=patient) == 1
    assert wanted(a_fleet(a_linux("linux-1")), *some(4), shape=patient) == 1


def test_late_jobs_do_not_share_a_factory() -> None:
    fleet = a_fleet()
    fleet.put_product(Product(id="notes", target_wait={Priority.MEDIUM: timedelta(minutes=5)}))
    late = [old_job(f"j{n}", waited=timedelta(minutes=6)) for n in range(4)]
    (one,) = seen(fleet, *late, shapes=(replace(LINUX, backlog=4),))
    assert (one.wanted, one.late) == (4, True)


def test_every_factory_state_is_reported() -> None:
    fleet = a_fleet(a_linux("linux-1", draining=True), a_linux("linux-4", capabilities=()))
    fleet.put(a_linux("linux-2", instance_id=""))
    fleet.put(a_linux("linux-3"))
    (one,) = seen(fleet)
    result = {each.id: (each.state, each.lacks) for each in one.factories}
    assert result == {
        "linux-1": (FactoryState.DRAINING, ()),
        "linux-2": (FactoryState.STARTING, ()),
        "linux-3": (FactoryState.SILENT, ()),
        "linux-4": (FactoryState.IDLE, ("os:linux",)),
    }


def test_draining_factory_is_not_wanted_even_with_work() -> None:
    assert wanted(a_fleet(a_linux("linux-1", draining=True)), at_work("linux-1")) == 0


def test_shape_without_factory_names_has_no_factories() -> None:
    (one,) = seen(a_fleet(a_linux("linux-1")), shapes=(replace(LINUX, factories=""),))
    assert one.factories == ()


kinds = st.builds(
    lambda **fields: JobClass.of(a_job(**fields), Step.RUN),
    ask=st.builds(
        ask_for,
        st.sampled_from(["os:any", "os:linux", "os:mac", "has:figma"]),
        engine=st.sampled_from([None, "claude", "codex"]),
    ),
    product_id=st.sampled_from(["notes", "shop"]),
    priority=st.sampled_from(Priority),
)
demands = st.builds(
    lambda waiting, served, **more: Demand(waiting=waiting, served=min(waiting, served), **more),
    waiting=st.integers(0, 60),
    served=st.integers(0, 20),
    job_class=kinds,
    running=st.integers(0, 5),
    oldest_s=st.sampled_from([1.0, 100.0]),
    target_s=st.sampled_from([None, 50.0]),
    stopped=st.sampled_from([None, None, None, "halted"]),
)
shapes = st.builds(
    lambda minimum, more, **fields: Shape(
        name="s", minimum=minimum, maximum=minimum + more, **fields
    ),
    minimum=st.integers(0, 3),
    more=st.integers(0, 20),
    capabilities=st.sampled_from([("os:linux",), ("os:mac",)]),
    engines=st.dictionaries(st.sampled_from(["claude", "codex"]), st.integers(0, 3)),
    slots=st.integers(1, 4),
    products=st.sampled_from([("*",), ("notes",)]),
    warm=st.integers(0, 2),
    backlog=st.sampled_from([1, 1, 3]),
)
surveys = st.builds(
    lambda found, left: DemandSnapshot(demands=tuple(found), fleet_seats_left=left),
    st.lists(demands, max_size=5),
    st.dictionaries(st.sampled_from(["claude", "codex"]), st.integers(0, 9)),
)


def runs(demand: Demand, shape: Shape) -> bool:
    return isinstance(match(demand.job_class, shape.traits), Fit)


@NO_DEADLINE
@given(surveys, st.lists(shapes, max_size=3))
def test_targets_stay_within_limits_and_count_no_job_twice(
    told: DemandSnapshot, several: list[Shape]
) -> None:
    found = scale_targets(several, told, a_fleet())
    for one in found:
        assert one.shape.minimum <= one.wanted <= one.shape.maximum
        assert one.wanted >= min(one.shape.maximum, one.more)
        able = [demand for demand in told.demands if runs(demand, one.shape)]
        assert one.waiting <= sum(demand.unserved for demand in able)
        if not any(demand.unserved for demand in able):
            assert (one.more, one.late) == (0, False)
        if one.late:
            assert any(demand.is_late for demand in able)
    assert sum(one.waiting for one in found) <= sum(demand.unserved for demand in told.demands)


@NO_DEADLINE
@given(st.lists(demands, max_size=4), shapes)
def test_target_has_a_seat_for_every_counted_job_and_no_factory_too_many(
    several: list[Demand], shape: Shape
) -> None:
    shape = replace(shape, backlog=1, maximum=10_000, minimum=0, warm=0)
    (one,) = scale_targets((shape,), DemandSnapshot(demands=tuple(several)), a_fleet())
    able = [demand for demand in several if demand.unserved and runs(demand, shape)]
    assert one.waiting == sum(demand.unserved for demand in able)
    assert one.more * shape.slots >= one.waiting
    for engine, seats in shape.engines.items():
        fixed = sum(demand.unserved for demand in able if demand.job_class.ask.engine == engine)
        assert one.more * seats >= fixed
    if len(able) == 1:
        (demand,) = able
        named = demand.job_class.ask.engine
        usable = [named] if named else list(shape.engines)
        each = min(shape.slots, sum(shape.engines[name] for name in usable))
        assert one.more == -(-demand.unserved // each)


@NO_DEADLINE
@given(surveys, shapes, st.integers(1, 5))
def test_more_work_never_lowers_the_wanted_number(
    told: DemandSnapshot, shape: Shape, more: int
) -> None:
    shape = replace(shape, backlog=1)
    grown = [replace(demand, waiting=demand.waiting + more) for demand in told.demands]
    (before,) = scale_targets((shape,), told, a_fleet())
    (then,) = scale_targets((shape,), replace(told, demands=tuple(grown)), a_fleet())
    assert then.wanted >= before.wanted


def test_silent_factory_is_needed_until_its_leases_end() -> None:
    fleet = a_fleet()
    fleet.put(a_linux("linux-1", engines={"claude": EngineSeats()}, enrolled_at=after(-200)))
    (one,) = seen(fleet, at_work("linux-1"))
    assert (one.factories[0].state, one.needed) == (FactoryState.SILENT, 1)
