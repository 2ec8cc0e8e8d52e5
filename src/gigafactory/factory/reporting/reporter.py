"""Reporters: how a run reports, to the coordinator or into a folder queue."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

import structlog

from gigafactory.client import artifacts, defects, workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import (
    Fenced,
    NotFound,
    Refused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from gigafactory.domain.job.artifact import Purpose
from gigafactory.domain.job.job import Step
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.tracker.defect import DefectSource
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.reporting.fleet_access import FleetAccess
from gigafactory.factory.reporting.log_sender import LogSender, RunLog
from gigafactory.factory.reporting.outbox_sender import OutboxSender
from gigafactory.wire.reports import ReportDoc

log = structlog.get_logger()

RETRY_S = 1.0
"""Pause between requests to an unreachable coordinator."""


class UploadableFile(Protocol):
    """A file to upload."""

    name: str
    media_type: str
    purpose: Purpose

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def sha256(self) -> str:
        """Hash of the content."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the content; can be called repeatedly."""


class Reporter(Protocol):
    """The receiver of a run's reports."""

    def report(self, report: Report, *, last: bool = False) -> None:
        """Store a report durably, in order; `last` ends the lease."""
        ...

    async def confirm_lease(self) -> bool:
        """Return whether this run holds the lease now."""
        ...

    async def send_log(self, source: RunLog) -> None:
        """Send the log while it grows, until it is closed."""
        ...

    async def add_artifact(self, file: UploadableFile) -> None:
        """Upload a file of the run; wait for an unreachable coordinator.

        Raises Refused, including Fenced.
        """
        ...

    async def report_revert(self, job_id: str, commit: str) -> None:
        """Report that the shipped work of a job was reverted; do not wait for the coordinator."""
        ...

    async def fleet_access(self) -> FleetAccess | None:
        """Return the access of the run's agent to the fleet; None if it has none."""
        ...


class FleetReporter:
    """Reports to the coordinator."""

    def __init__(
        self,
        client: AsyncClient,
        sender: OutboxSender,
        assignment: Assignment,
        end_reported: asyncio.Event,
    ) -> None:
        """`end_reported` is set when the final report is stored."""
        self._client = client
        self._sender = sender
        self._job_id = assignment.job_id
        self._epoch = assignment.epoch
        self._run_id = assignment.run_id
        self._may_use_fleet = assignment.parent_id is not None and assignment.step is Step.RUN
        self._end_reported = end_reported
        self._log_sent = False

    def report(self, report: Report, *, last: bool = False) -> None:
        if last:
            self._end_reported.set()
        log = None if self._log_sent or not last else self._run_id
        self._sender.send(
            self._job_id, self._epoch, ReportDoc.from_domain(report).fields, last=last, log=log
        )

    async def confirm_lease(self) -> bool:
        while True:
            try:
                await self._client.send(workers.renew(self._job_id, self._epoch))
            except (Fenced, NotFound):
                return False
            except (Unavailable, TooManyRequests):
                await asyncio.sleep(RETRY_S)
            else:
                return True

    async def send_log(self, source: RunLog) -> None:
        sender = LogSender(self._client, self._job_id, self._epoch, source.read)
        self._log_sent = await sender.follow(source)

    async def add_artifact(self, file: UploadableFile) -> None:
        call = artifacts.add(
            self._job_id,
            file,
            name=file.name,
            media_type=file.media_type,
            epoch=self._epoch,
            purpose=file.purpose,
        )
        while True:
            try:
                await self._client.send(call)
            except (Unavailable, TooManyRequests, Unauthenticated):
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def report_revert(self, job_id: str, commit: str) -> None:
        try:
            await self._client.send(defects.report(job_id, DefectSource.REVERT, commit))
        except Refused as refused:
            log.info("revert not noted", job=job_id, commit=commit, reason=refused.detail)

    async def fleet_access(self) -> FleetAccess | None:
        if not self._may_use_fleet:
            return None
        try:
            made = await self._client.send(workers.job_token(self._job_id, self._epoch))
        except Refused as refused:
            # The agent can work without access to the fleet.
            log.warning("no token for the agent", job=self._job_id, reason=refused.detail)
            return None
        return FleetAccess(self._client.url, made.token)
