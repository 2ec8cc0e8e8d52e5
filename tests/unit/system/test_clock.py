"""The clock advances evenly, even if the wall clock is changed."""

from datetime import timedelta

import pytest

from gigafactory.system.clock import EPOCH, SECOND_NS, SystemClock, since_boot_ns

NOON = EPOCH + timedelta(days=20_000)
NOON_S = 20_000 * 86_400.0


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.up_s = 100.0
        self.ahead_s = NOON_S - 100.0

    def wall(self) -> int:
        return round((self.up_s + self.ahead_s) * SECOND_NS)

    def steady(self) -> int:
        return round(self.up_s * SECOND_NS)

    def clock(self, not_before_s: float = 0.0) -> SystemClock:
        start = NOON + timedelta(seconds=not_before_s)
        return SystemClock(not_before=start, wall=self.wall, steady=self.steady)


def test_the_time_is_that_of_the_wall_clock() -> None:
    machine = Machine()
    clock = machine.clock(-5.0)
    assert clock.now() == NOON
    machine.up_s += 90.0
    assert clock.now() == NOON + timedelta(seconds=90)
    assert SystemClock().now() <= SystemClock().now()
    assert since_boot_ns() <= since_boot_ns()


@pytest.mark.parametrize("step_s", [-90.0, 60.0, -3600.0, 0.3])
def test_a_step_of_the_wall_clock_stretches_nothing(step_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.ahead_s += step_s
    for _ in range(90):
        before = clock.now()
        machine.up_s += 1.0
        assert timedelta(seconds=0.98) < clock.now() - before < timedelta(seconds=1.02)


@pytest.mark.parametrize("step_s", [-90.0, 60.0])
def test_the_time_approaches_the_wall_clock_again(step_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.ahead_s += step_s
    machine.up_s += 10_000.0
    assert clock.now() == NOON + timedelta(seconds=10_000 + step_s)


def test_a_wall_clock_far_ahead_is_followed_at_once() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.ahead_s += 86_400.0
    machine.up_s += 0.001
    assert clock.now() >= NOON + timedelta(days=1)


def test_a_start_behind_the_last_stored_time_goes_on_from_there() -> None:
    machine = Machine()
    clock = machine.clock(60.0)
    assert clock.now() == NOON + timedelta(seconds=60)
    machine.up_s += 10.0
    assert NOON + timedelta(seconds=69.8) < clock.now() < NOON + timedelta(seconds=70)


def test_a_clock_that_stood_still_goes_on_with_the_others() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.advance_to(NOON + timedelta(seconds=200))
    assert clock.now() == NOON + timedelta(seconds=200)
    machine.up_s += 10.0
    clock.advance_to(NOON)
    assert NOON + timedelta(seconds=209.8) < clock.now() < NOON + timedelta(seconds=210)
