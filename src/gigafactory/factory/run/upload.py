"""Bounded uploads at the end of a run, which a stop request aborts."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gigafactory.factory.run.active_run import ActiveRun

T = TypeVar("T")


class UploadAborted(Exception):  # noqa: N818 - named after what happened
    """The upload did not finish, and why."""


async def await_upload(run: ActiveRun, upload: Coroutine[Any, Any, T], *, within_s: float) -> T:
    """Await `upload`, unless the run is stopped meanwhile or the time runs out.

    A run that was already stopped still gets the full time. Raises UploadAborted.
    """
    task: asyncio.Future[T] = asyncio.ensure_future(upload)
    waits: list[asyncio.Future[Any]] = [task]
    if not run.stop.event.is_set():
        waits.append(asyncio.ensure_future(run.stop.event.wait()))
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if run.stop.event.is_set():
            raise UploadAborted("the run was stopped before the upload finished")
        raise UploadAborted(f"the coordinator did not accept it within {within_s:g} s")
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
