"""What has become of jobs: whoever keeps the queue knows, and housekeeping asks."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from gigafactory.client import jobs
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import NotFound, Unavailable
from gigafactory.domain.job.job import FINAL, Stage
from gigafactory.wire.jobs import JobView

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_KEPT_APART = frozenset({"pr", "none"})
"""The ways to ship after which the work may be on its own branch alone."""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands, since when, and with which commit."""

    stage: Stage
    since: datetime
    head: str | None = None

    @property
    def finished(self) -> bool:
        """Whether no run will follow, unless somebody reopens the job."""
        return self.stage in FINAL

    @property
    def shipped(self) -> bool:
        """Whether it was delivered."""
        return self.stage is Stage.SHIPPED


class Fates(Protocol):
    """Whoever knows the jobs."""

    async def of(self, job_ids: Collection[str]) -> Mapping[str, Fate]:
        """The fates of those of these jobs that are known.

        Raises Refused when nobody can be asked.
        """
        ...

    async def is_merged(self, job_id: str) -> bool:
        """Whether a job that was shipped went into its base branch, and not elsewhere or nowhere.

        Raises Refused when nobody can be asked.
        """
        ...


class FleetFates:
    """The jobs of a fleet, as its coordinator knows them."""

    def __init__(self, client: AsyncClient) -> None:
        """Ask over this client; one that sees too little knows too little, and nothing is lost."""
        self._client = client

    async def of(self, job_ids: Collection[str]) -> Mapping[str, Fate]:
        found: dict[str, Fate] = {}
        for some in _portions(sorted(each for each in job_ids if _ID.fullmatch(each))):
            page = await self._client.send(jobs.find_by_ids(some))
            found |= {job.id: _fate(job) for job in page.jobs}
        return found

    async def is_merged(self, job_id: str) -> bool:
        try:
            job = await self._client.send(jobs.get(job_id, include=["manifest"]))
        except NotFound:
            return False
        manifest = msgspec.json.decode(job.manifest or b"{}")
        return job.id == job_id and went_into_base(manifest.get("ship"))


class Unasked:
    """Nobody knows the jobs: this machine belongs to no fleet, or it should not be asked."""

    def __init__(self, why: str) -> None:
        """Say why there is nobody."""
        self._why = why

    async def of(self, job_ids: Collection[str]) -> Mapping[str, Fate]:  # noqa: ARG002
        raise Unavailable(self._why)

    async def is_merged(self, job_id: str) -> bool:  # noqa: ARG002
        raise Unavailable(self._why)


def went_into_base(ship: object) -> bool:
    """Whether a job that ships in this way is in its base once it is shipped."""
    return ship not in _KEPT_APART


def _fate(job: JobView) -> Fate:
    head = job.checkpoint.commit if job.checkpoint is not None else None
    return Fate(stage=job.stage, since=job.stage_since, head=head)


def _portions(job_ids: list[str]) -> Iterable[list[str]]:
    return (job_ids[at : at + jobs.IDS_MAX] for at in range(0, len(job_ids), jobs.IDS_MAX))
