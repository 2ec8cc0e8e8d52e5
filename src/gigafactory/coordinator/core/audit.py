"""Events that concern no job: the fleet's audit log."""

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
    """One line of the audit log, to go with the change that it tells of."""
    return Event(type=kind, at=now, actor=actor, product_id=product, data=data)


def require_stored(verdict: CommitResult, otherwise: str) -> None:
    """Refuse a change that lost its race.

    Raises Conflict.
    """
    if not isinstance(verdict, Stored):
        raise Conflict(otherwise)


def visible_products(caller: Caller) -> tuple[str, ...] | None:
    """The products whose log a caller reads: the chosen one, or those of the token."""
    if caller.product is not None:
        return (caller.product,)
    return None if "*" in caller.products else caller.products


class AuditLog:
    """The verb by which the log is read."""

    def __init__(self, store: Store) -> None:
        """Read what this store has."""
        self._store = store

    async def page(self, caller: Caller, *, before: int | None, limit: int) -> Sequence[Event]:
        """Events that concern no job, newest first, below a position.

        Raises Forbidden.
        """
        caller.require("audit")
        return await self._store.audit(visible_products(caller), before=before, limit=limit)
