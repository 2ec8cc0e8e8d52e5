"""Factories: capabilities, health, and cooldowns of their engines."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import TwinFactory
from gigafactory.domain.fleet.factory import (
    COOL_DOWN_MAX,
    COOL_DOWN_MIN,
    EARLIER_INSTANCES_MAX,
    OFFLINE_AFTER,
    TWIN_SILENCE,
    EngineSeats,
    Pressure,
    Vitals,
    disable_engine,
    health_score,
    is_online,
    merge_heartbeat,
    require_only_instance,
    start_cool_down,
)
from tests.support.builders import NOON, a_factory, after

shares = st.none() | st.floats(-1, 2)
pressures = st.builds(Pressure, load=shares, cpu=shares, memory=shares, disk=shares)


def test_engine_is_ready_unless_cooling_or_unavailable() -> None:
    assert EngineSeats().is_ready(NOON)
    assert EngineSeats(cooling_until=NOON).is_ready(NOON)
    assert not EngineSeats(cooling_until=after(1)).is_ready(NOON)
    assert not EngineSeats(unavailable="logged out").is_ready(NOON)


def test_factory_admits_only_the_products_of_its_token() -> None:
    assert a_factory().admits("anything")
    scoped = a_factory(products=("notes",))
    assert scoped.admits("notes")
    assert not scoped.admits("other")


def test_factory_capabilities_are_limited_to_those_its_token_allows() -> None:
    factory = a_factory(repos=("notes",))
    own = {"engine:claude", "repo:notes", "factory:mac-1"}
    assert factory.tokens == {"os:mac", "has:xcode"} | own
    assert replace(factory, capabilities_allowed=("os:mac", "gpu")).tokens == {"os:mac"} | own
    assert factory.key == "mac-1"


def test_factory_is_offline_after_the_silence_limit() -> None:
    assert not is_online(None, NOON)
    assert is_online(Vitals(last_seen=NOON), NOON + OFFLINE_AFTER - timedelta(milliseconds=1))
    assert not is_online(Vitals(last_seen=NOON), NOON + OFFLINE_AFTER)


@given(st.integers(-100, 200), pressures, st.floats(-1, 2))
def test_health_score_stays_between_zero_and_one(
    silent_s: int, pressure: Pressure, faults: float
) -> None:
    vitals = Vitals(last_seen=NOON, pressure=pressure, faults=faults)
    assert 0.0 <= health_score(vitals, after(silent_s)) <= 1.0


@pytest.mark.parametrize(
    "worse",
    [
        (Vitals(last_seen=after(-60))),
        (Vitals(last_seen=NOON, faults=0.5)),
        (Vitals(last_seen=NOON, pressure=Pressure(disk=0.97))),
        (Vitals(last_seen=NOON, pressure=Pressure(memory=0.97))),
        (Vitals(last_seen=NOON, pressure=Pressure(cpu=1.0))),
        (Vitals(last_seen=NOON, pressure=Pressure(load=1.0))),
    ],
    ids=["silent", "faulty", "disk", "memory", "cpu", "load"],
)
def test_health_score_falls_with_silence_faults_and_pressure(worse: Vitals) -> None:
    assert health_score(Vitals(last_seen=NOON), NOON) == 1.0
    assert health_score(worse, NOON) < 1.0


def test_used_up_engine_cools_down_until_its_named_reset() -> None:
    factory = start_cool_down(a_factory(), "claude", None, now=NOON)
    rested = start_cool_down(factory, "claude", after(999), now=NOON)
    assert rested.engines["claude"].cooling_until == after(999)
    assert (rested.engines["claude"].strikes, rested.rev) == (0, 3)


def test_cool_down_without_a_named_reset_doubles_up_to_an_hour() -> None:
    factory, waits = a_factory(), []
    for _ in range(12):
        factory = start_cool_down(factory, "claude", None, now=NOON)
        until = factory.engines["claude"].cooling_until
        assert until is not None
        waits.append(until - NOON)
    assert waits[:3] == [COOL_DOWN_MIN, 2 * COOL_DOWN_MIN, 4 * COOL_DOWN_MIN]
    assert waits == sorted(waits)
    assert waits[-1] == COOL_DOWN_MAX
    assert factory.engines["claude"].seats == 2


def test_unusable_engine_is_disabled_with_the_reason() -> None:
    factory = disable_engine(a_factory(), "codex", "logged out")
    assert factory.engines["codex"].unavailable == "logged out"
    assert factory.engines["claude"] == a_factory().engines["claude"]
    assert factory.rev == 2


def test_heartbeat_without_news_changes_nothing() -> None:
    known = a_factory(rev=5, draining=True, streaming="c-1", products=("notes",), os="mac")
    assert merge_heartbeat(known, a_factory()) == known


def test_heartbeat_cannot_override_fields_owned_by_the_coordinator() -> None:
    known = a_factory(rev=5, draining=True, products=("notes",), capabilities_allowed=("os:mac",))
    result = a_factory(slots=8, products=("*",), token_id="forged", enrolled_at=after(9), rev=99)
    assert merge_heartbeat(known, result) == replace(known, slots=8, rev=6)


def resting(**fields: object) -> EngineSeats:
    known = EngineSeats(version="2.1.0", cooling_until=after(60), unavailable="broken", strikes=2)
    return replace(known, **fields)


@pytest.mark.parametrize(
    ("instance_id", "version", "unavailable"),
    [("mac-1-a", "2.1.0", "broken"), ("mac-1-b", "2.1.0", None), ("mac-1-a", "2.2.0", None)],
    ids=["same", "new instance", "new version"],
)
def test_new_instance_or_version_clears_a_broken_engine_but_not_its_cool_down(
    instance_id: str, version: str, unavailable: str | None
) -> None:
    known = a_factory(engines={"claude": resting()})
    result = a_factory(
        instance_id=instance_id, engines={"claude": EngineSeats(version=version, seats=4)}
    )
    assert merge_heartbeat(known, result).engines["claude"] == resting(
        version=version, seats=4, unavailable=unavailable
    )


def test_heartbeat_engine_state_overrides_the_stored_cool_down() -> None:
    known = a_factory(engines={"claude": resting()})
    own = EngineSeats(version="2.1.0", cooling_until=after(5), unavailable="billing")
    result = a_factory(engines={"claude": own, "codex": EngineSeats()})
    engines = merge_heartbeat(known, result).engines
    assert engines["claude"] == replace(own, strikes=2)
    assert engines["codex"] == EngineSeats()


HERE, THERE = "one:/data", "two:/data"
ALIVE, DEAD = Vitals(last_seen=NOON), Vitals(last_seen=NOON - TWIN_SILENCE)


@pytest.mark.parametrize(
    ("instance", "place", "vitals"),
    [
        ("mac-1-a", THERE, ALIVE),
        ("mac-1-b", HERE, ALIVE),
        ("mac-1-b", None, ALIVE),
        ("mac-1-b", THERE, DEAD),
        ("mac-1-b", THERE, None),
    ],
    ids=["the same", "restarted", "of unknown place", "moved", "moved, never seen"],
)
def test_a_factory_may_be_restarted_or_moved(
    instance: str, place: str | None, vitals: Vitals | None
) -> None:
    known = a_factory(place=HERE)
    require_only_instance(known, instance, place, vitals=vitals, now=NOON)
    unknown = replace(known, instance_id="")
    require_only_instance(unknown, instance, THERE, vitals=ALIVE, now=NOON)


def test_a_second_live_process_is_refused_by_name() -> None:
    known = a_factory(place=HERE)
    with pytest.raises(TwinFactory, match=r"already running at one:/data.*at two:/data"):
        require_only_instance(known, "mac-1-b", THERE, vitals=ALIVE, now=NOON)


def test_a_process_that_was_replaced_does_not_come_back() -> None:
    known = a_factory()
    after_restart = merge_heartbeat(known, replace(known, instance_id="mac-1-b"))
    assert after_restart.earlier_instances == ("mac-1-a",)
    assert merge_heartbeat(after_restart, after_restart) == after_restart
    with pytest.raises(TwinFactory, match=r"another place.*an unnamed place"):
        require_only_instance(after_restart, "mac-1-a", None, vitals=None, now=NOON)
    for number in range(EARLIER_INSTANCES_MAX * 2):
        known = merge_heartbeat(known, replace(known, instance_id=f"mac-1-{number}"))
    assert len(known.earlier_instances) == EARLIER_INSTANCES_MAX


def test_the_first_process_of_a_factory_replaces_none() -> None:
    enrolled = a_factory(instance_id="")
    assert merge_heartbeat(enrolled, a_factory()).earlier_instances == ()
