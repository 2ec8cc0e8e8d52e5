"""Seats: which are free, and the keys that hold them."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.seats import SeatMap
from tests.support.builders import NOON, a_factory

MAC = a_factory()


def take(seating: SeatMap, job_id: str, *keys: str) -> None:
    seating.reserve(job_id, "mac-1", "claude", keys, now=NOON)


def test_run_takes_a_slot_an_engine_seat_and_a_fleet_seat() -> None:
    assert SeatMap({}).free_keys(MAC, None) == ("slot/mac-1/0",)
    assert SeatMap({}).free_keys(MAC, "claude") == ("slot/mac-1/0", "seat/mac-1/claude/0")
    seating = SeatMap({"claude": 3})
    take(seating, "job-1", "slot/mac-1/0", "fleet-seat/claude/0")
    assert seating.free_keys(MAC, "claude") == (
        "slot/mac-1/1",
        "seat/mac-1/claude/0",
        "fleet-seat/claude/1",
    )


def test_no_keys_are_free_without_a_slot_or_seat() -> None:
    assert SeatMap({}).free_keys(replace(MAC, slots=0), None) is None
    assert SeatMap({"claude": 0}).free_keys(MAC, "claude") is None
    assert SeatMap({}).free_keys(MAC, "codex") is None, "an engine that is gone has no seats"
    seating = SeatMap({})
    take(seating, "job-1", "seat/mac-1/claude/0", "seat/mac-1/claude/1")
    assert seating.free_keys(MAC, "claude") is None


@given(st.integers(0, 4), st.integers(0, 4), st.none() | st.integers(0, 4))
def test_number_of_runs_is_limited_by_the_scarcest_of_slots_and_seats(
    slots: int, seats: int, fleet: int | None
) -> None:
    factory = a_factory(slots=slots, engines={"claude": EngineSeats(seats=seats)})
    fleet_seats = {} if fleet is None else {"claude": fleet}
    seating = SeatMap(fleet_seats)
    runs = 0
    while keys := seating.free_keys(factory, "claude"):
        assert not set(seating.held_keys) & set(keys)
        take(seating, f"job-{runs}", *keys)
        runs += 1
    assert runs == min(slots, seats, *fleet_seats.values())


@given(st.lists(st.integers(0, 9), max_size=60))
def test_lowest_numbered_free_slot_is_taken(jobs: list[int]) -> None:
    seating = SeatMap({})
    factory = a_factory(slots=6)
    for number in jobs:
        job_id = f"job-{number}"
        if seating.forget(job_id) is not None:
            continue
        free = [n for n in range(6) if f"slot/mac-1/{n}" not in seating.held_keys]
        keys = seating.free_keys(factory, None)
        assert keys == ((f"slot/mac-1/{free[0]}",) if free else None)
        take(seating, job_id, *(keys or ()), f"lock/{number}")
