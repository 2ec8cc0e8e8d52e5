"""Looks up the state of jobs for garbage collection."""

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
"""Ship modes after which the work may be only on the job's own branch."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The stage of a job, since when, and with which commit."""

    stage: Stage
    since: datetime
    head: str | None = None

    @property
    def finished(self) -> bool:
        """Whether no run will follow, unless the job is reopened."""
        return self.stage in FINAL

    @property
    def shipped(self) -> bool:
        """Whether it was delivered."""
        return self.stage is Stage.SHIPPED


class JobStates(Protocol):
    """Looks up jobs in a queue."""

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        """Return the states of those jobs that are known.

        Raises Refused if they cannot be looked up.
        """
        ...

    async def is_merged(self, job_id: str) -> bool:
        """Return whether a shipped job went into its base branch.

        Raises Refused if it cannot be looked up.
        """
        ...


class FleetJobStates:
    """The jobs of a fleet, by its coordinator."""

    def __init__(self, client: AsyncClient) -> None:
        """Use this client; jobs that it may not see count as unknown, and nothing is lost."""
        self._client = client

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        """Return the states of those jobs that the coordinator knows."""
        states: dict[str, JobState] = {}
        for some in _portions(sorted(each for each in job_ids if _ID.fullmatch(each))):
            page = await self._client.send(jobs.find_by_ids(some))
            states |= {job.id: _state(job) for job in page.jobs}
        return states

    async def is_merged(self, job_id: str) -> bool:
        """Return whether a shipped job went into its base branch."""
        try:
            job = await self._client.send(jobs.get(job_id, include=["manifest"]))
        except NotFound:
            return False
        manifest = msgspec.json.decode(job.manifest or b"{}")
        return job.id == job_id and ships_into_base(manifest.get("ship"))


class UnknownJobStates:
    """No job can be looked up: this machine is in no fleet, or must not ask."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:  # noqa: ARG002
        """Raise Refused with the reason."""
        raise Unavailable(self._why)

    async def is_merged(self, job_id: str) -> bool:  # noqa: ARG002
        """Raise Refused with the reason."""
        raise Unavailable(self._why)


def ships_into_base(ship: object) -> bool:
    """Return whether a shipped job with this ship mode is in its base."""
    return ship not in _KEPT_APART


def _state(job: JobView) -> JobState:
    head = job.checkpoint.commit if job.checkpoint is not None else None
    return JobState(stage=job.stage, since=job.stage_since, head=head)


def _portions(job_ids: list[str]) -> Iterable[list[str]]:
    return (job_ids[at : at + jobs.IDS_MAX] for at in range(0, len(job_ids), jobs.IDS_MAX))
