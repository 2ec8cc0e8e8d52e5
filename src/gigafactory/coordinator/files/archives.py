"""Queries on archived jobs and their files."""

from collections.abc import AsyncIterator, Sequence

from gigafactory.coordinator.core.audit import visible_products
from gigafactory.coordinator.core.ports import PAGE_MAX, Blobs, Store
from gigafactory.domain.errors import NotFound
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller


class ArchiveQueries:
    """Queries on archived jobs."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def page(self, caller: Caller, *, after: str = "", limit: int) -> Sequence[ArchivedJob]:
        """Return archived jobs of the caller's chosen or visible products, oldest first.

        Raises Forbidden.
        """
        caller.require("read", OWN_PRODUCTS)
        products = visible_products(caller)
        archived: list[ArchivedJob] = []
        while len(archived) < limit and (
            page := await self._store.records(ArchivedJob, after=after, limit=PAGE_MAX)
        ):
            archived += [each for each in page if products is None or each.product_id in products]
            after = page[-1].key
        return archived[:limit]

    async def get(self, caller: Caller, job_id: str) -> ArchivedJob:
        """Return an archived job.

        Raises Forbidden, NotFound.
        """
        caller.require("read", OWN_PRODUCTS)
        archived = await self._store.record(ArchivedJob, job_id)
        if archived is None or not caller.can_see(archived.product_id):
            raise NotFound("archived job", job_id, "list archived jobs with `aq archive list`")
        return archived

    def read(self, archived: ArchivedJob, *, start: int = 0) -> AsyncIterator[bytes]:
        """Read an archive file from an offset.

        Raises NotFound if the bytes are gone.
        """
        return self._blobs.read(archived.blob, start=start)
