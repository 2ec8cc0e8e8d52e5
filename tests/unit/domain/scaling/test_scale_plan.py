"""The scale plan: starts each factory once, drains only idle ones and keeps busy ones."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.scaling.scale_plan import (
    ENDS_WITHIN,
    LIVE,
    RETRY_MAX,
    RETRY_MIN,
    MachineState,
    ScaleLimits,
    ScaleMemory,
    ScalePlan,
    ShapeMachine,
    assess_machines,
    free_names,
    plan_scaling,
    record_start_failure,
    record_start_success,
)
from gigafactory.domain.scaling.scale_target import FactoryState, ShapeFactory
from tests.support.builders import NOON, after

LIMITS = ScaleLimits(
    maximum=4, cool_down=timedelta(seconds=60), start_within=timedelta(seconds=600)
)


def a_sight(name: str, state: FactoryState, jobs: int = 0, at: datetime = NOON) -> ShapeFactory:
    return ShapeFactory(id=name, state=state, jobs=jobs, enrolled_at=at)


def standing(
    *sights: ShapeFactory,
    there: tuple[str, ...] = (),
    memory: ScaleMemory | None = None,
    now: datetime = NOON,
) -> dict[str, MachineState]:
    found, _ = assess_machines(sights, there, memory or ScaleMemory(), LIMITS, now)
    return {machine.name: machine.state for machine in found}


def some(*standings: MachineState) -> list[ShapeMachine]:
    return [
        ShapeMachine(name=f"m{number}", state=one, enrolled=True, exists=True)
        for number, one in enumerate(standings)
    ]


def planned(
    wanted: int, *standings: MachineState, memory: ScaleMemory | None = None, now: datetime = NOON
) -> ScalePlan:
    return plan_scaling(wanted, some(*standings), memory or ScaleMemory(), LIMITS, now)[0]


def test_machine_state_follows_the_state_of_its_factory() -> None:
    sights = [
        a_sight("a", FactoryState.IDLE),
        a_sight("b", FactoryState.BUSY, 1),
        a_sight("c", FactoryState.STARTING),
        a_sight("d", FactoryState.DRAINING, 1),
        a_sight("e", FactoryState.DRAINING),
    ]
    assert standing(*sights, there=("a", "b", "c", "d", "e")) == {
        "a": MachineState.IDLE,
        "b": MachineState.BUSY,
        "c": MachineState.STARTING,
        "d": MachineState.ENDING,
        "e": MachineState.ENDING,
    }


def test_vanished_machine_keeps_its_work_until_the_leases_end() -> None:
    sights = [
        a_sight("a", FactoryState.IDLE),
        a_sight("b", FactoryState.BUSY, 1),
        a_sight("c", FactoryState.SILENT, 1),
        a_sight("d", FactoryState.SILENT),
        a_sight("e", FactoryState.DRAINING, 1),
        a_sight("f", FactoryState.DRAINING),
    ]
    assert standing(*sights) == {
        "a": MachineState.DONE,
        "b": MachineState.LOST,
        "c": MachineState.LOST,
        "d": MachineState.DONE,
        "e": MachineState.ENDING,
        "f": MachineState.DONE,
    }


def test_machine_that_never_reported_is_stuck_after_a_while() -> None:
    begun = a_sight("a", FactoryState.STARTING)
    assert standing(begun, there=("a",), now=after(601)) == {"a": MachineState.STUCK}
    assert standing(begun) == {"a": MachineState.STUCK}


def test_machine_that_never_joined_is_stuck_after_a_while() -> None:
    found, memory = assess_machines((), ("a",), ScaleMemory(), LIMITS, NOON)
    assert found == [
        ShapeMachine(name="a", state=MachineState.STARTING, enrolled=False, exists=True)
    ]
    assert standing(there=("a",), memory=memory, now=after(599)) == {"a": MachineState.STARTING}
    assert standing(there=("a",), memory=memory, now=after(601)) == {"a": MachineState.STUCK}


def test_machine_that_left_the_fleet_is_done() -> None:
    _, memory = assess_machines(
        [a_sight("a", FactoryState.IDLE)], ("a",), ScaleMemory(), LIMITS, NOON
    )
    assert memory.joined == {"a"}
    assert standing(there=("a",), memory=memory) == {"a": MachineState.DONE}
    _, after_it = assess_machines((), (), memory, LIMITS, NOON)
    assert after_it.joined == frozenset()


def test_drained_machine_gets_time_to_end_by_itself() -> None:
    drained = a_sight("a", FactoryState.DRAINING)
    _, memory = assess_machines([drained], ("a",), ScaleMemory(), LIMITS, NOON)
    later = NOON + ENDS_WITHIN
    assert standing(drained, there=("a",), memory=memory, now=later) == {"a": MachineState.ENDING}
    later += timedelta(seconds=1)
    assert standing(drained, there=("a",), memory=memory, now=later) == {"a": MachineState.DONE}


def test_missing_wanted_machines_are_started() -> None:
    assert planned(2).start == 2
    assert planned(2, MachineState.STARTING).start == 1
    assert planned(2, MachineState.BUSY, MachineState.IDLE).start == 0
    assert planned(1, MachineState.LOST).start == 1


def test_all_existing_machines_count_against_the_maximum() -> None:
    assert (
        planned(
            4, MachineState.BUSY, MachineState.ENDING, MachineState.DONE, MachineState.STUCK
        ).start
        == 0
    )
    assert planned(4, MachineState.BUSY, MachineState.ENDING).start == 2


def test_new_autoscaler_drains_no_factory_before_the_cool_down() -> None:
    steps, memory = plan_scaling(0, some(MachineState.IDLE), ScaleMemory(), LIMITS, NOON)
    assert (steps.drain, steps.live, steps.keep) == ((), 1, 1)
    steps, memory = plan_scaling(0, some(MachineState.IDLE), memory, LIMITS, after(59))
    assert steps.drain == ()
    steps, _ = plan_scaling(0, some(MachineState.IDLE), memory, LIMITS, after(61))
    assert steps.drain == ("m0",)


def test_scaling_down_stops_at_the_recent_maximum() -> None:
    three = (MachineState.IDLE, MachineState.BUSY, MachineState.IDLE)
    _, memory = plan_scaling(3, some(*three), ScaleMemory(), LIMITS, NOON)
    _, memory = plan_scaling(1, some(*three), memory, LIMITS, after(30))
    _, memory = plan_scaling(2, some(*three), memory, LIMITS, after(40))
    _, memory = plan_scaling(1, some(*three), memory, LIMITS, after(50))
    assert planned(1, *three, memory=memory, now=after(89)).drain == ()
    assert planned(1, *three, memory=memory, now=after(91)).drain == ("m2",)
    assert planned(1, *three, memory=memory, now=after(111)).drain == ("m2", "m0")


def test_working_factory_is_never_drained() -> None:
    memory = ScaleMemory(wanted=((after(-100), 0),))
    assert planned(0, MachineState.BUSY, MachineState.STARTING, memory=memory).drain == ()


def test_machine_that_is_done_or_stuck_is_ended() -> None:
    found = (MachineState.DONE, MachineState.STUCK, MachineState.LOST, MachineState.ENDING)
    assert planned(0, *found).end == ("m0", "m1")


def test_start_failures_back_off_longer_each_time() -> None:
    memory = record_start_failure(ScaleMemory(), NOON)
    assert memory.not_before == NOON + RETRY_MIN
    steps = planned(1, memory=memory)
    assert (steps.start, steps.retry_at) == (0, memory.not_before)
    assert planned(0, memory=memory).retry_at is None
    assert planned(1, memory=memory, now=NOON + RETRY_MIN).start == 1
    assert record_start_failure(memory, NOON).not_before == NOON + 2 * RETRY_MIN
    for _ in range(40):
        memory = record_start_failure(memory, NOON)
    assert memory.not_before == NOON + RETRY_MAX
    assert record_start_success(memory) == ScaleMemory()


def test_new_machines_get_the_lowest_free_numbers() -> None:
    assert free_names("me.linux.", ["me.linux.2", "me.linux.x"], 3) == [
        "me.linux.1",
        "me.linux.3",
        "me.linux.4",
    ]
    assert free_names("a.", [], 0) == []


@given(
    st.integers(0, 6),
    st.lists(st.sampled_from(MachineState), max_size=6),
    st.lists(st.tuples(st.integers(-300, 0), st.integers(0, 6)), max_size=4).map(sorted),
)
def test_plan_never_ends_working_machines_nor_starts_too_many(
    wanted: int, standings: list[MachineState], past: list[tuple[int, int]]
) -> None:
    memory = ScaleMemory(wanted=tuple((after(seconds), number) for seconds, number in past))
    found = some(*standings)
    steps, then = plan_scaling(wanted, found, memory, LIMITS, NOON)
    by_name = {machine.name: machine.state for machine in found}
    assert {by_name[name] for name in steps.drain} <= {MachineState.IDLE}
    assert {by_name[name] for name in steps.end} <= {MachineState.DONE, MachineState.STUCK}
    live = sum(one in LIVE for one in standings)
    assert live + steps.start <= max(wanted, live)
    present = sum(one is not MachineState.LOST for one in standings)
    assert steps.start == 0 or present + steps.start <= LIMITS.maximum
    assert live - len(steps.drain) >= min(live, wanted)
    assert not (steps.start and steps.drain)
    assert then.wanted[-1][1] == wanted
    assert steps.keep == max(number for _, number in then.wanted)


@pytest.mark.parametrize("idle", [0, 1, 3])
def test_idle_machines_are_drained_to_zero(idle: int) -> None:
    found = some(*[MachineState.IDLE] * idle)
    _, memory = plan_scaling(0, found, ScaleMemory(), LIMITS, NOON)
    steps, _ = plan_scaling(0, found, memory, LIMITS, after(61))
    assert len(steps.drain) == idle
