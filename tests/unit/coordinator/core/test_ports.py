"""Lists are read beyond one page: factories, tokens, halts and events."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.tenancy.access import Role
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from tests.support.api_server import SYSTEM
from tests.support.builders import NOON, a_factory
from tests.support.memory_coordinator import MAC, CoordinatorHarness

MANY = PAGE_MAX + 3


@pytest.fixture
def house(tmp_path: Path) -> CoordinatorHarness:
    return CoordinatorHarness(tmp_path)


async def test_all_factories_are_listed_and_indexed_beyond_one_page(
    house: CoordinatorHarness,
) -> None:
    made = [RecordChange(before=None, after=a_factory(id=f"mac-{n:04}")) for n in range(MANY)]
    assert isinstance(await house.store.commit(*made), Stored)
    fleet = await house.coordinator()
    assert len(await fleet.factories.all(SYSTEM)) == MANY
    assert len(fleet.index.factories) == MANY


async def test_all_halted_products_stay_halted_after_a_restart(house: CoordinatorHarness) -> None:
    names = [f"shop-{n:04}" for n in range(MANY)]
    switches = [
        HaltSwitch(product_id=name, halted=True, by="user:ann", reason="", at=NOON)
        for name in names
    ]
    made = [RecordChange(before=None, after=switch) for switch in switches]
    assert isinstance(await house.store.commit(*made), Stored)
    fleet = await house.coordinator()
    assert all(fleet.index.fleet.stop_reason(name) for name in names)


async def test_last_of_many_tokens_can_be_revoked(house: CoordinatorHarness) -> None:
    fleet = await house.coordinator()
    people = [f"ann-{n}" for n in range(MANY)]
    made = [await fleet.tokens.issue(SYSTEM, who, Role.VIEWER, ("*",)) for who in people]
    listed = await fleet.tokens.all(SYSTEM)
    assert len(listed) == MANY
    assert {token.id for token in listed} == {one.token.id for one in made}
    last = max(made, key=lambda one: one.token.key).token
    assert (await fleet.tokens.revoke(SYSTEM, last.id)).revoked_at is not None


async def test_newest_decision_of_a_job_with_a_long_history_is_explained(
    house: CoordinatorHarness,
) -> None:
    fleet = await house.with_factory()
    asked = {"name": "long", "engine": "claude", "verify": "true"}
    [job] = (
        await fleet.submissions.submit(
            replace(SYSTEM, product="notes"), [parse_json_job({"manifest": asked, "body": "Go."})]
        )
    ).jobs
    for n in range(MANY):
        now = (await fleet.store.jobs([job.id]))[job.id]
        result = transition(now, None, ("progress", {"n": n}), actor="system:test", now=NOON)
        assert isinstance(await house.store.commit(result), Stored)
    [grant] = await fleet.claims.claim(MAC, "mac-1")
    explained = await fleet.jobs.explain(grant.job)
    assert explained.decision
    assert explained.decision == (await fleet.jobs.runs(grant.job))[-1].decision
