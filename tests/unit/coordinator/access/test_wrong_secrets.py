"""Rejected secrets in the audit log: few events, each with the worst addresses."""

import pytest

from gigafactory.coordinator.access.wrong_secrets import SOURCES_MAX, WrongSecrets
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import AnyRecord
from gigafactory.domain.errors import Unavailable
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock


class LeavingStore(MemoryStore):
    """A store that can be unavailable."""

    away = False

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        if self.away:
            raise Unavailable("the store is unavailable")
        return await super().record(of, key)


def counting(store: MemoryStore) -> WrongSecrets:
    clock = SystemClock()
    return WrongSecrets(store, Committer(store, clock, None), clock)


async def test_many_addresses_are_one_event_with_the_worst_of_them() -> None:
    store = MemoryStore()
    wrong = counting(store)
    for number in range(2 * SOURCES_MAX):
        wrong.count_signature(f"192.0.2.{number}", "notes")
    for _ in range(3 * SOURCES_MAX):
        wrong.count_signature("192.0.2.7", "notes")
    await wrong.step()
    await wrong.step()
    [event] = await store.audit(None)
    assert event.data["address"] == "192.0.2.7"
    assert event.data["attempts"] == 5 * SOURCES_MAX
    assert event.data["addresses"] == SOURCES_MAX + 1


async def test_nothing_refused_is_no_event() -> None:
    store = MemoryStore()
    await counting(store).step()
    assert await store.audit(None) == []


async def test_what_could_not_be_recorded_is_in_the_next_event() -> None:
    store = LeavingStore()
    wrong = counting(store)
    wrong.count_token("192.0.2.7")
    store.away = True
    with pytest.raises(Unavailable):
        await wrong.step()
    store.away = False
    wrong.count_token("192.0.2.7")
    await wrong.step()
    [event] = await store.audit(None)
    assert event.data["attempts"] == 2
