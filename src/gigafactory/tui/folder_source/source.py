"""Dashboard source of a folder queue."""

import asyncio
import codecs
import os
import signal
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from gigafactory.config.settings import FactorySettings, FolderSettings
from gigafactory.domain.errors import Conflict, NotFound, Unavailable
from gigafactory.domain.job.job import Job
from gigafactory.folder.queue import actions
from gigafactory.folder.queue import halt as halting
from gigafactory.folder.queue.claim import Claim, read_claim
from gigafactory.folder.queue.status import BoardLine, FolderStatus, folder_status
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.system.file_chunks import read_chunk
from gigafactory.tui.folder_source.rendering import (
    explain,
    render_job,
    render_runs,
    runner_name,
    snapshot,
)
from gigafactory.tui.model.fleet_source import describe_result
from gigafactory.tui.model.source import (
    NO_INPUT,
    ActionInput,
    DashboardSnapshot,
    EmptyViewHints,
    JobDetail,
    LogChunk,
)
from gigafactory.wiring.folder_process import open_runner

T = TypeVar("T")

POLL_INTERVAL_S = 0.5
LOG_TAIL_BYTES = 256 * 1024

HINTS = EmptyViewHints(
    no_jobs="No jobs yet. Add one with `aq add FILE`, or copy its file to the inbox.",
    no_attention="Nothing waits for you.",
    no_factories="No runner works on this folder. `aq run` runs the jobs in its inbox.",
    no_budgets="A folder has no budget. `aq insights` shows the cost of its runs.",
)


class FolderSource:
    """A folder queue and the processes that work on it."""

    hints = HINTS
    supported_actions = frozenset({"drain", "halt"})

    def __init__(
        self, queue: FolderQueue, settings: FactorySettings, folder: FolderSettings, *, by: str
    ) -> None:
        """Make decisions as user `by`; ship jobs with these settings."""
        self._queue = queue
        self._settings = settings
        self._folder = folder
        self._by = by
        self._draining: set[int] = set()
        """Processes that were sent SIGTERM; a second signal would abort them."""
        # The queue caches what it reads, which is not thread-safe.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="folder")

    @property
    def name(self) -> str:
        return str(self._queue.board.root)

    async def _in_thread(self, do: Callable[[], T]) -> T:
        """Run file operations in the source's thread.

        Raises Refused.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do)
        except OSError as trouble:
            raise Unavailable(f"{self.name} cannot be read: {trouble}") from None

    async def load(self, filter_text: str) -> DashboardSnapshot:  # noqa: ARG002 - the views filter
        if not self._queue.board.exists:
            raise Unavailable(f"{self.name} is no longer a folder queue; `aq add FILE` creates one")
        return await self._in_thread(self._load)

    def _load(self) -> DashboardSnapshot:
        state, now = folder_status(self._queue), self._queue.clock.now()
        return snapshot(state, self._claims(state), frozenset(self._draining), now=now)

    def _claims(self, state: FolderStatus) -> list[Claim]:
        """Return the claims on jobs, one per process."""
        records = self._queue.look()
        keys = [
            records[line.job.id].key for line in state.jobs if line.pid and line.job.id in records
        ]
        claims = (read_claim(self._queue.board, key) for key in keys)
        return list({claim.pid: claim for claim in claims if claim is not None}.values())

    async def changes(self) -> AsyncGenerator[None, None]:
        before = await self._in_thread(self._modification_times)
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            now = await self._in_thread(self._modification_times)
            if now != before:
                before = now
                yield

    def _modification_times(self) -> dict[str, int]:
        """Modification times of the folders; replacing a record changes its folder's."""
        board = self._queue.board
        places = (board.state, *(board.column(name) for name in ("inbox", "building", "failed")))
        return {place.name: _modification_time(place) for place in places}

    async def load_job(self, job_id: str) -> JobDetail:
        return await self._in_thread(lambda: self._load_job(job_id))

    def _load_job(self, job_id: str) -> JobDetail:
        state = folder_status(self._queue)
        line = next((line for line in state.jobs if line.job.id == job_id), None)
        if line is None:
            raise NotFound("job", job_id, "its file was removed, or `aq clean` deleted it")
        record = self._queue.look().get(job_id)
        edited = "its file was edited after its first run had started; the edit is ignored"
        return JobDetail(
            job=render_job(line),
            why=explain(line),
            reasons=(edited,) if line.edited else (),
            runs=render_runs(record) if record else (),
        )

    async def follow_log(self, job_id: str, cursor: str | None) -> AsyncGenerator[LogChunk, None]:
        record = (await self._in_thread(self._queue.look)).get(job_id)
        if record is None:
            raise NotFound("job", job_id)
        path = self._queue.board.log(record.key)
        size = path.stat().st_size if path.exists() else 0
        offset = max(0, size - LOG_TAIL_BYTES) if cursor is None else int(cursor)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            while chunk := await self._in_thread(partial(read_chunk, path, offset)):
                offset += len(chunk)
                yield LogChunk(decoder.decode(chunk), str(offset - len(decoder.getstate()[0])))
            await asyncio.sleep(POLL_INTERVAL_S)

    async def act(self, job_id: str, action: str, given: ActionInput = NO_INPUT) -> str:
        answer = actions.FolderActionInput(reason=given.reason, commit=given.commit)
        act = partial(actions.act, self._queue, job_id, action, self._by, answer)
        record = await self._in_thread(act)
        if isinstance(record, str):
            return f"{record} is in the inbox again"
        if action == "ship" and record.job.ship is not None:
            await self._ship(record.job)
            record = (await self._in_thread(self._queue.look))[record.job.id]
        return describe_result(
            action, render_job(BoardLine(column="", file=record.file, job=record.job))
        )

    async def _ship(self, job: Job) -> None:
        """Ship a job in this process: a folder has no factory that would do it.

        Raises Refused.
        """
        runner = await open_runner(
            self._settings,
            FolderQueue(self._queue.board, self._queue.clock, self._queue.ids),
            folder=self._folder,
            wanted=lambda each: each.id == job.id,
        )
        await runner.run(once=True)

    async def drain(self, factory_id: str, *, draining: bool) -> str:
        claims = await self._in_thread(lambda: self._claims(folder_status(self._queue)))
        claim = next((each for each in claims if runner_name(each.pid) == factory_id), None)
        if claim is None or not claim.alive:
            raise NotFound("runner", factory_id, "it has ended")
        if not draining or claim.pid in self._draining:
            raise Conflict(f"{factory_id} is already draining; `aq run` starts another runner")
        if claim.pid == os.getpid():
            raise Conflict(
                "this is the dashboard itself, which is shipping a job; wait until it is done"
            )
        self._draining.add(claim.pid)
        os.kill(claim.pid, signal.SIGTERM)
        return f"{factory_id} is draining: it takes no new jobs and ends after its current ones"

    async def pause(self, product_id: str, *, paused: bool, reason: str = "") -> str:  # noqa: ARG002
        raise NotFound("budget", product_id, HINTS.no_budgets)

    async def halt(self, product_id: str | None, *, halted: bool, reason: str = "") -> str:  # noqa: ARG002
        if halted:
            await self._in_thread(partial(halting.halt, self._queue, self._by, reason))
            return "the folder is halted: no job starts; press H to resume"
        await self._in_thread(partial(halting.lift, self._queue))
        return "the folder is resumed"

    async def close(self) -> None:
        self._thread.shutdown(wait=False)


def _modification_time(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
