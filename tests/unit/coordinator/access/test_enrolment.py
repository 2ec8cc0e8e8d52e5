"""Enrolment changes survive concurrent changes of the factory."""

from pathlib import Path

import pytest

from gigafactory.domain.errors import NotFound
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.change import CommitResult, Write
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM
from tests.support.memory_coordinator import CoordinatorHarness


@pytest.fixture
def house(tmp_path: Path) -> CoordinatorHarness:
    return CoordinatorHarness(tmp_path)


@pytest.mark.parametrize("verb", ["rotate", "revoke", "deregister"])
async def test_token_and_membership_changes_survive_a_concurrent_factory_change(
    house: CoordinatorHarness, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = await house.with_factory()

    async def commit_after_another(store: MemoryStore, *writes: Write) -> CommitResult:
        monkeypatch.undo()
        await fleet.factories.drain(SYSTEM, "mac-1")
        return await store.commit(*writes)

    monkeypatch.setattr(MemoryStore, "commit", commit_after_another)
    await getattr(fleet.enrolment, verb)(SYSTEM, "mac-1")
    left = await house.store.record(Factory, "mac-1")
    assert (left is None) == (verb == "deregister")
    assert left is None or left.draining, "what the other did stands"


async def test_deregistering_an_unknown_factory_is_rejected(house: CoordinatorHarness) -> None:
    fleet = await house.with_factory()
    await fleet.enrolment.deregister(SYSTEM, "mac-1")
    with pytest.raises(NotFound):
        await fleet.enrolment.deregister(SYSTEM, "mac-1")
