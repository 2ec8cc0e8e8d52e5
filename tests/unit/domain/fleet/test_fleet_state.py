"""The state of the fleet: capacity, seats, presence, products and switches."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure, Vitals
from gigafactory.domain.fleet.fleet_state import PAST_CAPABILITIES_MAX, FleetState
from gigafactory.domain.fleet.matching import PastCapabilities
from gigafactory.domain.fleet.pool import FITS_MAX, Pool, Presence
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import NOON, a_factory, a_job, a_lease, a_running_job, after
from tests.support.small_fleet import (
    NO_DEADLINE,
    a_fleet,
    a_linux,
    a_queue,
    an_offer,
    ask_for,
    only_class,
)

SLOT = "slot/mac-1/0"


def running(job_id: str, **fields: object) -> Job:
    """Return a job that runs on mac-1 with claude."""
    return a_running_job(id=job_id, lease=a_lease(**({"holds": ()} | fields)))


def presence(fleet: FleetState, factory_id: str = "mac-1") -> Presence:
    member = fleet.member(factory_id)
    assert member is not None
    return member.presence


def the_pool(fleet: FleetState) -> Pool:
    (pool,) = fleet.pools()
    return pool


def test_free_capacity_is_the_least_of_slots_seats_and_fleet_wide_seats() -> None:
    factory = a_factory(slots=3, engines={"claude": EngineSeats(seats=2)})
    assert a_fleet(factory).free_seats("mac-1", "claude", NOON) == 2
    assert a_fleet(factory).free_seats("mac-1", None, NOON) == 3
    assert a_fleet(factory, claude=1).free_seats("mac-1", "claude", NOON) == 1
    assert a_fleet(factory, codex=0).free_seats("mac-1", "claude", NOON) == 2


def test_cooling_unavailable_or_unknown_engine_has_no_capacity() -> None:
    factory = a_factory(
        engines={
            "claude": EngineSeats(cooling_until=after(60)),
            "codex": EngineSeats(unavailable="not logged in"),
        }
    )
    fleet = a_fleet(factory)
    assert [fleet.free_seats("mac-1", name, NOON) for name in ("claude", "codex", "devin")] == [
        0,
        0,
        0,
    ]
    assert fleet.free_seats("mac-1", "claude", after(60)) == 1
    assert fleet.free_seats("mac-9", "claude", NOON) == 0


def test_leases_ending_leases_and_offers_take_slots_and_seats() -> None:
    fleet = a_fleet(a_factory(slots=4, engines={"claude": EngineSeats(seats=4)}), claude=9)
    fleet.put_job(a_running_job(id="a"))
    fleet.put_job(a_job(id="b", stage=Stage.CANCELLED, ending=(a_lease(epoch=3),)))
    fleet.put_job(a_job(id="c", offer=an_offer()))
    assert fleet.free_seats("mac-1", "claude", NOON) == 1
    assert fleet.seat_map.slots_taken("mac-1") == 3
    assert fleet.seat_map.fleet_seats_free("claude") == 6


def test_ship_step_takes_a_slot_and_no_seat() -> None:
    fleet = a_fleet(a_factory(slots=3))
    fleet.put_job(running("a", engine=None))
    fleet.put_job(a_job(id="b", offer=an_offer(engine=None)))
    assert fleet.free_seats("mac-1", "claude", NOON) == 1
    assert fleet.seat_map.seats_taken("mac-1", "claude") == 0


def test_acp_engine_seats_are_counted_by_kind() -> None:
    fleet = a_fleet(a_factory(engines={"acp": EngineSeats(seats=1)}))
    assert fleet.seat_keys("mac-1", "acp:gemini --acp") == (SLOT, "seat/mac-1/acp/0")
    fleet.put_job(running("a", engine="acp:gemini --acp"))
    assert fleet.free_seats("mac-1", "acp:qwen --acp", NOON) == 0


def test_putting_a_job_is_idempotent_and_its_end_frees_its_seats() -> None:
    fleet = a_fleet(a_factory())
    for _ in range(2):
        fleet.put_job(a_running_job())
    assert fleet.free_seats("mac-1", "claude", NOON) == 1
    assert fleet.seat_keys("mac-1", "claude") == ("slot/mac-1/1", "seat/mac-1/claude/0")
    fleet.put_job(a_job(stage=Stage.REVIEW))
    assert fleet.free_seats("mac-1", "claude", NOON) == 2
    assert fleet.seat_keys("mac-1", "claude") == (SLOT, "seat/mac-1/claude/0")


def test_reserved_seats_stay_taken_until_the_grant_is_committed() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_job(a_job(offer=an_offer()))
    fleet.reserve("job-1", "mac-1", "claude", (SLOT,), now=NOON)
    fleet.reserve("job-2", "mac-1", None, (), now=NOON)
    assert fleet.free_seats("mac-1", None, NOON) == 0
    assert fleet.seat_map.held_keys == {SLOT: "job-1"}
    fleet.put_job(a_running_job())
    fleet.put_job(a_job(id="job-2"))
    assert fleet.free_seats("mac-1", None, NOON) == 1
    assert fleet.seat_usage("notes", NOON) > 0


def test_forgotten_job_takes_no_seats() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_job(a_running_job())
    fleet.forget_job("job-1")
    fleet.forget_job("job-1")
    assert fleet.free_seats("mac-1", "claude", NOON) == 2


def test_key_now_held_by_another_job_is_not_freed_by_the_first() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_job(running("a", holds=(SLOT,)))
    fleet.put_job(running("b", holds=(SLOT,)))
    fleet.put_job(a_job(id="a", stage=Stage.REVIEW))
    assert fleet.seat_map.held_keys == {SLOT: "b"}


def test_seat_keys_are_absent_without_a_factory_engine_or_free_slot() -> None:
    fleet = a_fleet(a_factory(slots=1))
    assert fleet.seat_keys("mac-9", None) is None
    assert fleet.seat_keys("mac-1", "codex") is None
    fleet.put_job(a_running_job())
    assert fleet.seat_keys("mac-1", None) is None


def test_leases_of_a_factory_that_enrolls_later_are_counted() -> None:
    fleet = FleetState()
    fleet.put_job(a_running_job())
    fleet.put(a_factory())
    assert fleet.free_seats("mac-1", "claude", NOON) == 1


def test_factories_with_equal_traits_share_a_pool() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b", slots=9), a_factory())
    fleet.put(a_linux("c", streaming="coordinator-1"))
    fleet.remove("c")
    assert sorted(sorted(pool.members) for pool in fleet.pools()) == [["a", "b"], ["mac-1"]]


def test_factory_whose_traits_change_leaves_its_old_pool() -> None:
    fleet = a_fleet(a_linux("a"))
    fleet.put(a_linux("a", draining=True))
    assert the_pool(fleet).traits.draining
    fleet.put(a_linux("a", draining=True, slots=5))
    assert fleet.free_seats("a", None, NOON) == 5
    fleet.put(a_linux("b", draining=True))
    fleet.remove("b")
    fleet.remove("a")
    fleet.remove("a")
    assert list(fleet.pools()) == []
    assert list(fleet.members()) == []


def test_silent_factory_fades_then_goes_offline() -> None:
    fleet = a_fleet(a_factory())
    for seconds, expected in (
        (44, Presence.FRESH),
        (45, Presence.FADING),
        (89, Presence.SICK),
        (90, Presence.AWAY),
    ):
        fleet.advance(after(seconds))
        member = fleet.member("mac-1")
        assert member is not None
        assert member.presence_at(after(seconds)) is expected
    assert presence(fleet) is Presence.AWAY
    fleet.record_vitals("mac-1", Vitals(last_seen=after(90)))
    assert presence(fleet) is Presence.FRESH


def test_factory_with_faults_is_sick_before_silence_takes_it_offline() -> None:
    fleet = a_fleet(a_factory())
    fleet.record_vitals("mac-1", Vitals(last_seen=NOON, faults=0.4))
    for seconds, expected in ((67, Presence.FADING), (68, Presence.SICK), (90, Presence.AWAY)):
        fleet.advance(after(seconds))
        assert presence(fleet) is expected


def test_factory_without_vitals_is_offline() -> None:
    fleet = FleetState()
    fleet.put(a_factory())
    member = fleet.member("mac-1")
    assert member is not None
    assert member.health(NOON) == 0.0
    assert presence(fleet) is Presence.AWAY


def test_vitals_of_an_unknown_factory_are_ignored() -> None:
    fleet = FleetState()
    fleet.record_vitals("mac-9", Vitals(last_seen=NOON))
    assert fleet.member("mac-9") is None


def test_factory_with_many_faults_is_sick() -> None:
    fleet = a_fleet(a_factory())
    fleet.record_vitals("mac-1", Vitals(last_seen=NOON, faults=0.9))
    assert presence(fleet) is Presence.SICK


def test_engine_is_free_again_after_its_cool_down() -> None:
    cooling = EngineSeats(cooling_until=after(30))
    fleet = a_fleet(a_factory(engines={"claude": cooling}))
    fleet.advance(NOON)
    assert [room.free for room in the_pool(fleet).open] == [(False,)]
    fleet.advance(after(30))
    assert [room.free for room in the_pool(fleet).open] == [(True,)]


def test_timers_of_a_removed_factory_are_ignored() -> None:
    fleet = a_fleet(a_factory())
    fleet.remove("mac-1")
    fleet.advance(after(100))
    assert list(fleet.members()) == []


def test_outdated_timer_is_ignored() -> None:
    fleet = a_fleet(a_factory())
    fleet.put(a_factory(engines={"claude": EngineSeats(cooling_until=after(10))}))
    fleet.advance(after(50))
    assert presence(fleet) is Presence.FADING


def test_healthier_factory_ranks_first_at_equal_room() -> None:
    fleet = a_fleet(a_linux("a"), a_linux("b"))
    fleet.record_vitals("a", Vitals(last_seen=NOON, pressure=Pressure(cpu=0.9)))
    ((_, ranks),) = the_pool(fleet).open.items()
    assert [factory_id for _, factory_id, _ in ranks] == ["b", "a"]


def test_stop_reason_names_who_halted_the_product_or_fleet() -> None:
    fleet = FleetState()
    switch = HaltSwitch(product_id="notes", halted=True, by="user:ann", reason="red main", at=NOON)
    fleet.put_switch(switch)
    assert fleet.stop_reason("notes") == "product notes was halted by user:ann: red main"
    assert fleet.stop_reason("shop") is None
    fleet.put_switch(replace(switch, product_id="*", reason=""))
    assert fleet.stop_reason("shop") == "the fleet was halted by user:ann"
    fleet.put_switch(replace(switch, product_id="*", halted=False))
    fleet.put_switch(replace(switch, halted=False))
    assert fleet.stop_reason("notes") is None


def test_seat_usage_is_divided_by_the_product_share() -> None:
    fleet = a_fleet(a_factory())
    assert fleet.product_ids == frozenset()
    fleet.put_product(Product(id="notes", share=2.0))
    assert fleet.product_ids == {"notes"}
    fleet.put_job(a_running_job())
    fleet.put_job(a_running_job(id="b", product_id="shop"))
    assert fleet.seat_usage("shop", after(60)) == pytest.approx(
        2 * fleet.seat_usage("notes", after(60))
    )
    assert fleet.seat_usage("idle", after(60)) == 0.0


def test_seat_usage_stops_growing_when_the_lease_ends() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_job(a_running_job())
    ending = a_running_job(lease=None, ending=(a_lease(),), stage=Stage.CANCELLED)
    fleet.put_job(ending)
    assert fleet.seat_usage("notes", after(60)) > 100
    fleet.put_job(replace(ending, ending=(), updated_at=after(60)))
    assert fleet.seat_usage("notes", after(60)) == pytest.approx(60, rel=0.02)
    assert fleet.seat_usage("notes", after(7200)) < 5


def test_undone_grant_costs_no_seat_usage() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_job(running("a", granted_at=after(5)))
    fleet.put_job(a_job(id="a"))
    assert fleet.seat_usage("notes", after(5)) == 0.0


def test_capabilities_of_removed_factories_are_remembered_within_bounds() -> None:
    fleet = a_fleet(a_factory())
    fleet.remove("mac-1")
    ((had, who),) = fleet.past_capabilities.items()
    assert "has:xcode" in had.tokens
    assert had.admits("notes")
    assert who == ("mac-1", NOON)
    for n in range(PAST_CAPABILITIES_MAX):
        old = PastCapabilities(frozenset({f"has:tool{n}"}), ("shop",))
        fleet.remember_capabilities("old", old, NOON)
    assert len(fleet.past_capabilities) == PAST_CAPABILITIES_MAX
    assert had not in fleet.past_capabilities


def test_removed_factory_without_vitals_is_dated_by_the_last_known_time() -> None:
    fleet = FleetState()
    fleet.advance(after(5))
    fleet.put(a_factory())
    fleet.remove("mac-1")
    assert list(fleet.past_capabilities.values()) == [("mac-1", after(5))]


def test_rarity_is_the_share_of_factories_that_lack_a_capability() -> None:
    fleet = a_fleet(a_factory(), a_linux("a"), a_linux("b"), a_linux("c"))
    demanded = frozenset({"has:xcode", "os:any", "gpu"})
    rare = {min(pool.members): found for pool, found in fleet.rarities(demanded).items()}
    assert rare == {"mac-1": (("has:xcode", 0.75),), "a": ()}
    assert fleet.rarities(demanded) is fleet.rarities(frozenset(demanded))


def test_fit_cache_is_cleared_when_it_is_full() -> None:
    fleet = a_fleet(a_linux())
    pool = the_pool(fleet)
    job_class = only_class(a_queue(a_job())).job_class
    fit = fleet.fit(job_class, pool)
    assert fleet.fit(job_class, pool) is fit
    for _ in range(FITS_MAX):
        pool.cache_fit(JobClass.of(a_job(), job_class.step), fit)
    assert pool.cached_fit(job_class) is None


def test_capability_that_every_factory_has_does_not_lower_the_fit() -> None:
    fleet = a_fleet(a_factory(), a_linux(capabilities=("os:linux", "has:git")))
    job_class = only_class(a_queue(a_job(ask=ask_for()))).job_class
    before = {min(pool.members): fleet.fit(job_class, pool) for pool in fleet.pools()}
    fleet.put(a_factory(capabilities=("os:mac", "has:git")))
    now = {min(pool.members): fleet.fit(job_class, pool) for pool in fleet.pools()}
    assert [getattr(before[name], "capability", None) for name in sorted(before)] == [0.5, 0.5]
    assert [getattr(now[name], "capability", None) for name in sorted(now)] == [1.0, 1.0]


factories = st.builds(
    lambda n, slots, seats, cools: a_factory(
        id=f"f{n}",
        slots=slots,
        engines={"claude": EngineSeats(seats=seats, cooling_until=after(cools))},
    ),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(1, 2),
    st.sampled_from([-5, 20, 60]),
)
signs = st.builds(
    lambda n, ago, faults: (f"f{n}", Vitals(last_seen=after(-ago), faults=faults)),
    st.integers(0, 4),
    st.integers(0, 100),
    st.sampled_from([0.0, 0.4, 0.9]),
)
leased = st.builds(
    lambda n, f, lives: (
        running(f"j{n}", factory_id=f"f{f}") if lives else a_job(id=f"j{n}", stage=Stage.REVIEW)
    ),
    st.integers(0, 5),
    st.integers(0, 4),
    st.booleans(),
)


@NO_DEADLINE
@given(st.lists(factories | signs | leased | st.integers(0, 90), max_size=40))
def test_every_factory_is_ranked_in_its_pool_by_presence_and_room(
    steps: list[Factory | tuple[str, Vitals] | Job | int],
) -> None:
    fleet, now = FleetState(), NOON
    for step in steps:
        match step:
            case Factory():
                fleet.put(step)
            case Job():
                fleet.put_job(step)
            case int():
                now += timedelta(seconds=step)
            case (factory_id, vitals):
                fleet.record_vitals(factory_id, vitals)
        fleet.advance(now)
        for member in fleet.members():
            factory, pool = member.factory, member.pool
            ranked = [m for ranks in pool.open.values() for *_, m in ranks]
            assert member.presence is member.presence_at(now)
            fresh = member.presence is Presence.FRESH
            assert (factory.id in pool.full) is (
                fresh and fleet.free_seats(factory.id, None, now) < 1
            )
            assert (member in ranked) is (fresh and factory.id not in pool.full)
            if member in ranked:
                assert member.occupancy.free == (fleet.free_seats(factory.id, "claude", now) > 0,)
