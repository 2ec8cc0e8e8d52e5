"""Keys that are remembered for a limited time."""

from datetime import timedelta

from gigafactory.coordinator.core.recent_keys import RecentKeys
from tests.support.memory_coordinator import ManualClock


def test_a_key_is_remembered_for_its_time() -> None:
    clock = ManualClock()
    keys = RecentKeys(clock, kept_for=timedelta(seconds=10), most=5)
    keys.add("a")
    clock.seconds = 9.0
    keys.add("a")
    assert keys.contains("a")
    assert not keys.contains("b")
    clock.seconds = 10.0
    assert not keys.contains("a")


def test_the_oldest_keys_are_forgotten_first() -> None:
    keys = RecentKeys(ManualClock(), kept_for=timedelta(seconds=10), most=2)
    for key in "abc":
        keys.add(key)
    assert [key for key in "abc" if keys.contains(key)] == ["b", "c"]
