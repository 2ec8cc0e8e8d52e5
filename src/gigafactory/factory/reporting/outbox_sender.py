"""Delivers reports from the outbox to the coordinator: in order, each exactly once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.problems import ServerFailed
from gigafactory.domain.errors import (
    Fenced,
    Invalid,
    Malformed,
    Refused,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from gigafactory.domain.job.job import Result, Stage
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.reporting.log_sender import LogSender
from gigafactory.factory.reporting.outbox import Outbox, OutboxReport
from gigafactory.system.file_chunks import read_chunk

PAUSE_MIN_S = 0.5
PAUSE_MAX_S = 15.0
LOG_TIMEOUT_S = 20.0
"""How long other reports wait for the end of a log."""

log = structlog.get_logger()

UNREADABLE = (Invalid, Malformed, TooLarge)
"""Refusals of what a report says, whatever the state of its job."""
SHORT = {"stage", "result", "reason"}
REASON_CHARS_MAX = 1000

OnFenced = Callable[[str, int], None]


class OutboxSender:
    """Delivers reports one by one; calls `on_fenced` for each run that lost its lease."""

    def __init__(
        self,
        outbox: Outbox,
        client: AsyncClient,
        on_fenced: OnFenced,
        data_dir: DataDir,
    ) -> None:
        self._outbox = outbox
        self._client = client
        self._on_fenced = on_fenced
        self._data_dir = data_dir
        self._has_reports = asyncio.Event()
        self._delivered = asyncio.Condition()
        self._pending_usage: dict[tuple[str, int], Path] = {}
        """The newest report of each run that contains only usage."""

    def send(
        self,
        job_id: str,
        epoch: int,
        fields: dict[str, Any],
        *,
        last: bool = False,
        log: str | None = None,
    ) -> None:
        """Store a report, and deliver it soon; after the log of run `log`."""
        place = self._outbox.put(job_id, epoch, fields, last=last, log=log)
        if "usage" in fields:
            # Usage is cumulative: this report replaces an undelivered one with less usage.
            replaced = self._pending_usage.pop((job_id, epoch), None)
            if replaced is not None:
                self._outbox.remove(replaced)
        if fields.keys() == {"usage"} and not last:
            self._pending_usage[job_id, epoch] = place
        self._has_reports.set()

    async def run(self) -> None:
        """Deliver forever."""
        pause = PAUSE_MIN_S
        while True:
            self._has_reports.clear()
            try:
                await self._deliver_all()
            except (Unavailable, TooManyRequests, Unauthenticated) as away:
                log.warning(
                    "reports are delayed", reason=away.detail, waiting=len(self._outbox.pending())
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MAX_S)
                continue
            pause = PAUSE_MIN_S
            await self._has_reports.wait()

    async def deliver_pending(self) -> None:
        """Deliver the reports of an earlier process, before this one joins the fleet.

        Raises Unavailable, TooManyRequests, Unauthenticated.
        """
        await self._deliver_all()

    async def _deliver_all(self) -> None:
        """Deliver all reports in order; those of a job that the server fails on wait.

        Raises Unavailable, TooManyRequests, Unauthenticated if any report has to wait.
        """
        failed: dict[str, ServerFailed] = {}
        for place in self._outbox.pending():
            try:
                letter = self._outbox.read(place)
            except FileNotFoundError:
                continue
            if letter.job_id in failed:
                continue
            try:
                await self._deliver(place, letter)
            except ServerFailed as fault:
                failed[letter.job_id] = fault
            async with self._delivered:
                self._delivered.notify_all()
        if failed:
            raise next(iter(failed.values()))

    async def _deliver(self, place: Path, letter: OutboxReport) -> None:
        if letter.log is not None:
            await self.send_log(letter.job_id, letter.epoch, letter.log)
        try:
            await self._client.send(
                workers.report(letter.job_id, letter.epoch, letter.fields, key=letter.key)
            )
        except (Unavailable, TooManyRequests, Unauthenticated):
            raise
        except Fenced:
            self._on_fenced(letter.job_id, letter.epoch)
            self._outbox.quarantine(
                place, self._data_dir.quarantine_folder(letter.job_id, letter.epoch)
            )
            return
        except Refused as refused:
            # A retry would be refused again; the expiry of the lease settles the job.
            log.warning(
                "report refused", job=letter.job_id, told=letter.fields, reason=refused.detail
            )
            if letter.last and isinstance(refused, UNREADABLE) and letter.fields.keys() != SHORT:
                self.send(letter.job_id, letter.epoch, _refused_end(refused), last=True)
        self._outbox.remove(place)

    async def send_log(self, job_id: str, epoch: int, run_id: str) -> None:
        """Send the rest of a run's log, within a time limit.

        Raises Unavailable, TooManyRequests.
        """
        file = self._data_dir.log_file(run_id)
        sender = LogSender(self._client, job_id, epoch, lambda offset: read_chunk(file, offset))
        try:
            async with asyncio.timeout(LOG_TIMEOUT_S):
                await sender.send_available()
        except TimeoutError:
            # The report is more important than the end of the log.
            log.warning("the end of a log was not sent", run=run_id, file=str(file))

    async def wait_empty(self) -> None:
        """Wait until all reports are delivered."""
        async with self._delivered:
            await self._delivered.wait_for(lambda: not self._outbox.pending())


def _refused_end(refused: Refused) -> dict[str, Any]:
    """Return a report that ends the run, so that people see why instead of a lost lease."""
    reason = f"the coordinator refused the report of this run: {refused.detail}"
    return {
        "stage": str(Stage.FAILED),
        "result": str(Result.CRASH),
        "reason": reason[:REASON_CHARS_MAX],
    }
