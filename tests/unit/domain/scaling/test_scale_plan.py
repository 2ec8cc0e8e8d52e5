"""What an autoscaler does: starts once, drains only the idle, gives up on nobody that has work."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.scaling.scale_plan import (
    AGAIN_MAX,
    AGAIN_MIN,
    ENDS_WITHIN,
    LIVE,
    Limits,
    Machine,
    Memory,
    Plan,
    Standing,
    failed,
    free_names,
    machines,
    plan,
    worked,
)
from gigafactory.domain.scaling.wanted import Sight, State
from tests.support.builders import NOON, after

LIMITS = Limits(maximum=4, cool_down=timedelta(seconds=60), start_within=timedelta(seconds=600))


def a_sight(name: str, state: State, jobs: int = 0, at: datetime = NOON) -> Sight:
    return Sight(id=name, state=state, jobs=jobs, enrolled_at=at)


def standing(
    *sights: Sight, there: tuple[str, ...] = (), memory: Memory | None = None, now: datetime = NOON
) -> dict[str, Standing]:
    found, _ = machines(sights, there, memory or Memory(), LIMITS, now)
    return {machine.name: machine.standing for machine in found}


def some(*standings: Standing) -> list[Machine]:
    return [
        Machine(name=f"m{number}", standing=one, enrolled=True, exists=True)
        for number, one in enumerate(standings)
    ]


def planned(
    wanted: int, *standings: Standing, memory: Memory | None = None, now: datetime = NOON
) -> Plan:
    return plan(wanted, some(*standings), memory or Memory(), LIMITS, now)[0]


def test_a_member_is_what_the_fleet_says_of_it() -> None:
    sights = [
        a_sight("a", State.IDLE),
        a_sight("b", State.BUSY, 1),
        a_sight("c", State.STARTING),
        a_sight("d", State.DRAINING, 1),
        a_sight("e", State.DRAINING),
    ]
    assert standing(*sights, there=("a", "b", "c", "d", "e")) == {
        "a": Standing.IDLE,
        "b": Standing.BUSY,
        "c": Standing.STARTING,
        "d": Standing.ENDING,
        "e": Standing.ENDING,
    }


def test_a_member_that_is_gone_keeps_its_work_until_the_leases_end() -> None:
    sights = [
        a_sight("a", State.IDLE),
        a_sight("b", State.BUSY, 1),
        a_sight("c", State.SILENT, 1),
        a_sight("d", State.SILENT),
        a_sight("e", State.DRAINING, 1),
        a_sight("f", State.DRAINING),
    ]
    assert standing(*sights) == {
        "a": Standing.DONE,
        "b": Standing.LOST,
        "c": Standing.LOST,
        "d": Standing.DONE,
        "e": Standing.ENDING,
        "f": Standing.DONE,
    }


def test_whoever_was_never_heard_of_is_given_up_after_a_while() -> None:
    begun = a_sight("a", State.STARTING)
    assert standing(begun, there=("a",), now=after(601)) == {"a": Standing.STUCK}
    assert standing(begun) == {"a": Standing.STUCK}


def test_a_machine_that_never_joins_is_given_up_after_a_while() -> None:
    found, memory = machines((), ("a",), Memory(), LIMITS, NOON)
    assert found == [Machine(name="a", standing=Standing.STARTING, enrolled=False, exists=True)]
    assert standing(there=("a",), memory=memory, now=after(599)) == {"a": Standing.STARTING}
    assert standing(there=("a",), memory=memory, now=after(601)) == {"a": Standing.STUCK}


def test_a_machine_that_has_left_the_fleet_can_go() -> None:
    _, memory = machines([a_sight("a", State.IDLE)], ("a",), Memory(), LIMITS, NOON)
    assert memory.joined == {"a"}
    assert standing(there=("a",), memory=memory) == {"a": Standing.DONE}
    _, after_it = machines((), (), memory, LIMITS, NOON)
    assert after_it.joined == frozenset()


def test_a_drained_factory_has_a_moment_to_end_by_itself() -> None:
    drained = a_sight("a", State.DRAINING)
    _, memory = machines([drained], ("a",), Memory(), LIMITS, NOON)
    later = NOON + ENDS_WITHIN
    assert standing(drained, there=("a",), memory=memory, now=later) == {"a": Standing.ENDING}
    later += timedelta(seconds=1)
    assert standing(drained, there=("a",), memory=memory, now=later) == {"a": Standing.DONE}


def test_what_is_wanted_and_not_there_is_started() -> None:
    assert planned(2).start == 2
    assert planned(2, Standing.STARTING).start == 1
    assert planned(2, Standing.BUSY, Standing.IDLE).start == 0
    assert planned(1, Standing.LOST).start == 1


def test_all_that_exist_count_against_the_maximum() -> None:
    assert planned(4, Standing.BUSY, Standing.ENDING, Standing.DONE, Standing.STUCK).start == 0
    assert planned(4, Standing.BUSY, Standing.ENDING).start == 2


def test_a_new_autoscaler_drains_nobody_before_the_cool_down() -> None:
    steps, memory = plan(0, some(Standing.IDLE), Memory(), LIMITS, NOON)
    assert (steps.drain, steps.live, steps.keeps) == ((), 1, 1)
    steps, memory = plan(0, some(Standing.IDLE), memory, LIMITS, after(59))
    assert steps.drain == ()
    steps, _ = plan(0, some(Standing.IDLE), memory, LIMITS, after(61))
    assert steps.drain == ("m0",)


def test_it_goes_down_to_the_most_that_were_wanted_lately() -> None:
    three = (Standing.IDLE, Standing.BUSY, Standing.IDLE)
    _, memory = plan(3, some(*three), Memory(), LIMITS, NOON)
    _, memory = plan(1, some(*three), memory, LIMITS, after(30))
    _, memory = plan(2, some(*three), memory, LIMITS, after(40))
    _, memory = plan(1, some(*three), memory, LIMITS, after(50))
    assert planned(1, *three, memory=memory, now=after(89)).drain == ()
    assert planned(1, *three, memory=memory, now=after(91)).drain == ("m2",)
    assert planned(1, *three, memory=memory, now=after(111)).drain == ("m2", "m0")


def test_whoever_works_is_never_drained() -> None:
    memory = Memory(wanted=((after(-100), 0),))
    assert planned(0, Standing.BUSY, Standing.STARTING, memory=memory).drain == ()


def test_whoever_is_done_or_stuck_is_ended() -> None:
    found = (Standing.DONE, Standing.STUCK, Standing.LOST, Standing.ENDING)
    assert planned(0, *found).end == ("m0", "m1")


def test_after_a_failure_the_next_start_waits_longer_each_time() -> None:
    memory = failed(Memory(), NOON)
    assert memory.not_before == NOON + AGAIN_MIN
    steps = planned(1, memory=memory)
    assert (steps.start, steps.waits) == (0, memory.not_before)
    assert planned(0, memory=memory).waits is None
    assert planned(1, memory=memory, now=NOON + AGAIN_MIN).start == 1
    assert failed(memory, NOON).not_before == NOON + 2 * AGAIN_MIN
    for _ in range(40):
        memory = failed(memory, NOON)
    assert memory.not_before == NOON + AGAIN_MAX
    assert worked(memory) == Memory()


def test_names_are_the_lowest_numbers_that_nobody_has() -> None:
    assert free_names("me.linux.", ["me.linux.2", "me.linux.x"], 3) == [
        "me.linux.1",
        "me.linux.3",
        "me.linux.4",
    ]
    assert free_names("a.", [], 0) == []


@given(
    st.integers(0, 6),
    st.lists(st.sampled_from(Standing), max_size=6),
    st.lists(st.tuples(st.integers(-300, 0), st.integers(0, 6)), max_size=4).map(sorted),
)
def test_a_plan_never_ends_work_nor_starts_too_many(
    wanted: int, standings: list[Standing], past: list[tuple[int, int]]
) -> None:
    memory = Memory(wanted=tuple((after(seconds), number) for seconds, number in past))
    found = some(*standings)
    steps, then = plan(wanted, found, memory, LIMITS, NOON)
    by_name = {machine.name: machine.standing for machine in found}
    assert {by_name[name] for name in steps.drain} <= {Standing.IDLE}
    assert {by_name[name] for name in steps.end} <= {Standing.DONE, Standing.STUCK}
    live = sum(one in LIVE for one in standings)
    assert live + steps.start <= max(wanted, live)
    present = sum(one is not Standing.LOST for one in standings)
    assert steps.start == 0 or present + steps.start <= LIMITS.maximum
    assert live - len(steps.drain) >= min(live, wanted)
    assert not (steps.start and steps.drain)
    assert then.wanted[-1][1] == wanted
    assert steps.keeps == max(number for _, number in then.wanted)


@pytest.mark.parametrize("idle", [0, 1, 3])
def test_idle_means_zero_in_the_end(idle: int) -> None:
    found = some(*[Standing.IDLE] * idle)
    _, memory = plan(0, found, Memory(), LIMITS, NOON)
    steps, _ = plan(0, found, memory, LIMITS, after(61))
    assert len(steps.drain) == idle
