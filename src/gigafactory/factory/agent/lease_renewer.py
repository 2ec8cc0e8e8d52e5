"""Renews the leases of active runs, and reports those that are lost."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Fenced, NotFound, Refused

log = structlog.get_logger()


class LeaseRenewer:
    """Renews all leases; calls `lost` for each one that the coordinator refuses."""

    def __init__(
        self,
        client: AsyncClient,
        held: Callable[[], Mapping[str, int]],
        lost: Callable[[str, int], None],
    ) -> None:
        """`held` returns the lease epoch of each active job."""
        self._client = client
        self._held = held
        self._lost = lost

    async def renew_all(self) -> None:
        """Renew all leases once."""
        await asyncio.gather(*(self._renew(job, epoch) for job, epoch in self._held().items()))

    async def _renew(self, job_id: str, epoch: int) -> None:
        try:
            await self._client.send(workers.renew(job_id, epoch))
        except (Fenced, NotFound):
            self._lost(job_id, epoch)
        except Refused as refused:
            # An expired lease can still be renewed until the coordinator ends it.
            log.warning("lease not renewed", job=job_id, reason=refused.detail)
