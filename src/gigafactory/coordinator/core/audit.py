"""The audit log: events that belong to no job."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.errors import Conflict
from gigafactory.domain.job.change import FLEET, CommitResult, Stored
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller, sole_product


def audit_event(
    kind: str, actor: str, now: datetime, data: dict[str, Any], products: Collection[str]
) -> Event:
    """Return an audit log event, to be stored with the change that it describes.

    `products` are those of the object: the log of its only product shows the event. An event of
    several products, or of the fleet, is in the fleet's log alone.
    """
    return Event(type=kind, at=now, actor=actor, product_id=sole_product(products), data=data)


def require_stored(verdict: CommitResult, otherwise: str) -> None:
    """Raise unless the commit was stored.

    Raises Conflict.
    """
    if not isinstance(verdict, Stored):
        raise Conflict(otherwise)


def visible_products(caller: Caller) -> tuple[str, ...] | None:
    """Return the caller's chosen or visible products; None for all."""
    if caller.product is not None:
        return (caller.product,)
    return None if FLEET in caller.products else caller.products


def readable_logs(caller: Caller) -> tuple[str, ...] | None:
    """Return whose logs the caller may read, `*` for the fleet's; None for all."""
    products = visible_products(caller)
    return (*products, FLEET) if products is not None and caller.reads_fleet_log else products


class AuditLog:
    """Reads the audit log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, caller: Caller, *, before: int | None, limit: int) -> Sequence[Event]:
        """Return events without a job, newest first, below position `before`.

        Raises Forbidden.
        """
        caller.require("audit", OWN_PRODUCTS)
        return await self._store.audit(readable_logs(caller), before=before, limit=limit)
