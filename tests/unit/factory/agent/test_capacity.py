"""The capacity of a machine: how the fleet and local work share it."""

from gigafactory.factory.agent.capacity import (
    FLEET_PASS_S,
    FLEET_TURN_S,
    MachineCapacity,
    WorkOrigin,
)

NAMES = ("claude", "command")
FLEET, LOCAL = WorkOrigin.FLEET, WorkOrigin.LOCAL


class Hall:
    """A machine's capacity, its running work, and a clock that the test sets."""

    def __init__(self, slots: int, **seats: int) -> None:
        self.time = 0.0
        self.fleet: list[str | None] = []
        self.local: list[str | None] = []
        self.room = MachineCapacity(slots, lambda name: seats.get(name, 9), clock=lambda: self.time)
        self.room.track_running(FLEET, lambda: self.fleet)
        self.room.track_running(LOCAL, lambda: self.local)

    def enter(self, side: WorkOrigin, engine: str | None = "command") -> None:
        (self.fleet if side is FLEET else self.local).append(engine)
        self.room.record_start(side, engine)

    def after(self, seconds: float) -> None:
        """Offer the free capacity to the fleet for this time."""
        self.room.record_offered(NAMES)
        self.time += seconds
        self.room.record_offered(NAMES)


def test_machine_without_local_work_offers_all_slots_to_the_fleet() -> None:
    hall = Hall(2, claude=1)
    assert hall.room.offered_to_fleet(NAMES) == (2, {"claude": 1, "command": 9})
    hall.enter(FLEET, "claude")
    assert not hall.room.fleet_can_start("claude")
    assert hall.room.fleet_can_start("command")
    hall.enter(FLEET, "acp:goose")
    assert not hall.room.fleet_can_start(None)
    assert hall.room.offered_to_fleet(NAMES) == (2, {"claude": 1, "command": 9}), (
        "it counts its own"
    )


def test_fleet_is_offered_the_slots_and_seats_that_local_work_leaves() -> None:
    hall = Hall(3, claude=1)
    hall.enter(LOCAL, "claude")
    assert hall.room.offered_to_fleet(NAMES) == (2, {"claude": 0, "command": 9})
    hall.enter(LOCAL, None)
    assert hall.room.offered_to_fleet(NAMES) == (1, {"claude": 0, "command": 9})
    assert not hall.room.fleet_can_start("claude")
    assert hall.room.fleet_can_start("command")


def test_last_slot_goes_to_the_side_with_fewer_runs() -> None:
    hall = Hall(3)
    hall.enter(FLEET)
    hall.enter(FLEET)
    assert hall.room.set_local_waiting(["command"])
    assert not hall.room.set_local_waiting(["command"]), "that is no news"
    assert not hall.room.fleet_can_start("command")
    assert hall.room.offered_to_fleet(NAMES)[0] == 2
    assert hall.room.local_can_start("command")
    hall.enter(LOCAL)
    hall.fleet.pop()
    hall.fleet.pop()
    hall.enter(LOCAL)
    assert not hall.room.local_can_start("command")
    assert hall.room.fleet_can_start("command")


def test_fleet_and_local_work_alternate_on_one_slot() -> None:
    hall = Hall(1)
    hall.room.set_local_waiting(["command"])
    order = []
    for _ in range(6):
        side = LOCAL if hall.room.local_can_start("command") else FLEET
        assert hall.room.fleet_can_start("command") is (side is FLEET)
        hall.enter(side)
        order.append(side)
        hall.fleet.clear()
        hall.local.clear()
    assert order == [LOCAL, FLEET] * 3


def test_contested_seat_is_taken_in_turn() -> None:
    hall = Hall(8, claude=1)
    hall.enter(FLEET, "claude")
    hall.room.set_local_waiting(["claude"])
    assert hall.room.offered_to_fleet(NAMES) == (8, {"claude": 0, "command": 9}), (
        "no slot without its seat"
    )
    hall.fleet.clear()
    assert not hall.room.fleet_can_start("claude")
    assert hall.room.fleet_can_start("command")
    assert hall.room.local_can_start("claude")


def test_turn_unused_by_the_fleet_passes_to_local_work() -> None:
    hall = Hall(1)
    hall.enter(LOCAL)
    hall.local.clear()
    hall.room.set_local_waiting(["command"])
    hall.after(FLEET_TURN_S / 2)
    assert not hall.room.local_can_start("command")
    hall.after(FLEET_TURN_S / 2)
    assert hall.room.local_can_start("command")
    hall.enter(LOCAL)
    hall.time += FLEET_PASS_S / 2
    hall.local.clear()
    assert hall.room.local_can_start("command"), "it had nothing to do a moment ago"


def test_fleet_gets_its_turn_again_after_a_while() -> None:
    hall = Hall(1)
    hall.enter(LOCAL)
    hall.local.clear()
    hall.after(FLEET_TURN_S)
    hall.enter(LOCAL)
    hall.after(FLEET_PASS_S)
    hall.local.clear()
    hall.room.set_local_waiting(["command"])
    assert not hall.room.local_can_start("command")
    assert hall.room.fleet_can_start("command")
    hall.after(FLEET_TURN_S / 2)
    hall.enter(FLEET)
    hall.fleet.clear()
    assert hall.room.local_can_start("command"), "it has had its turn"


def test_nothing_is_held_for_a_disconnected_fleet() -> None:
    hall = Hall(1)
    hall.enter(LOCAL)
    hall.local.clear()
    assert not hall.room.local_can_start("command")
    hall.room.is_disconnected = lambda: True
    assert hall.room.local_can_start("command")


def test_granted_seat_taken_by_local_work_is_detected() -> None:
    hall = Hall(2, claude=1)
    hall.enter(LOCAL, "claude")
    assert hall.room.taken_by_local_work("claude")
    assert not hall.room.taken_by_local_work("command")
    hall.enter(LOCAL, None)
    assert hall.room.taken_by_local_work("command")
    full = Hall(1)
    full.enter(FLEET)
    assert not full.room.taken_by_local_work("command"), "the fleet knows what it does"


def test_ship_step_waits_only_for_a_slot() -> None:
    hall = Hall(1)
    hall.enter(FLEET)
    hall.room.set_local_waiting([None])
    assert hall.room.offered_to_fleet(NAMES) == (0, {"claude": 9, "command": 9})
    hall.fleet.clear()
    assert hall.room.local_can_start(None)


def test_no_run_starts_on_a_closed_machine() -> None:
    hall = Hall(2)
    hall.room.closed = True
    assert not hall.room.fleet_can_start(None)
    assert not hall.room.local_can_start(None)
    assert hall.room.offered_to_fleet(NAMES)[0] == 0
