"""The audit log: events that belong to no job."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.errors import Conflict
from gigafactory.domain.job.change import FLEET, CommitResult, Stored
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import Caller


def audit_event(
    kind: str, actor: str, now: datetime, data: dict[str, Any], product: str = FLEET
) -> Event:
    """Return an audit log event, to be stored with the change that it describes."""
    return Event(type=kind, at=now, actor=actor, product_id=product, data=data)


def require_stored(verdict: CommitResult, otherwise: str) -> None:
    """Raise unless the commit was stored.

    Raises Conflict.
    """
    if not isinstance(verdict, Stored):
        raise Conflict(otherwise)


def visible_products(caller: Caller) -> tuple[str, ...] | None:
    """Return the products whose log the caller may read; None for all."""
    if caller.product is not None:
        return (caller.product,)
    return None if "*" in caller.products else caller.products


class AuditLog:
    """Reads the audit log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, caller: Caller, *, before: int | None, limit: int) -> Sequence[Event]:
        """Return events without a job, newest first, below position `before`.

        Raises Forbidden.
        """
        caller.require("audit")
        return await self._store.audit(visible_products(caller), before=before, limit=limit)
