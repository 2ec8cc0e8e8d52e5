"""Capabilities of departed factories, restored from the audit log at start."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gigafactory.coordinator.core.ports import PAGE_MAX, Store
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import FactoryTraits, PastCapabilities
from gigafactory.domain.job.job import Event

ADVERTISED = "advertised"
SERVED = "served"
LOOKED_AT_MAX = 10 * PAGE_MAX
"""How many audit events are read; older capabilities are forgotten."""


def departure_data(before: Factory, after: Factory | None = None) -> dict[str, Any]:
    """Return event data for a factory that leaves or changes, with lost capabilities."""
    before_traits = FactoryTraits.of(before)
    lost_capabilities = after is None or not before_traits.tokens <= FactoryTraits.of(after).tokens
    lost = (
        {ADVERTISED: sorted(before_traits.tokens), SERVED: list(before_traits.products)}
        if lost_capabilities
        else {}
    )
    return {"factoryId": before.id} | lost


async def restore_past_capabilities(
    store: Store, fleet: FleetState, seen: Mapping[str, datetime]
) -> None:
    """Restore the capabilities that were advertised before this coordinator started."""
    advertisements: list[Event] = []
    before, looked_at = None, 0
    while looked_at < LOOKED_AT_MAX and (
        page := await store.audit(None, before=before, limit=PAGE_MAX)
    ):
        advertisements += [event for event in page if ADVERTISED in event.data]
        before, looked_at = page[-1].position, looked_at + len(page)
    for event in reversed(advertisements):
        factory_id: str = event.data["factoryId"]
        until = min(event.at, seen.get(factory_id, event.at))
        # Events of older versions do not say whom the factory served: then nobody is told of it.
        served = tuple(event.data.get(SERVED, ()))
        capabilities = PastCapabilities(frozenset(event.data[ADVERTISED]), served)
        fleet.remember_capabilities(factory_id, capabilities, until)
