"""The log of a job for its page: a part, live from there on, or all of it as a file."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import get
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import Meta, Struct

from gigafactory.api.http import sse
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.jobs import logs
from gigafactory.api.jobs.events import last_event_id
from gigafactory.web.site.session import visit


class Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and how much of the end of its log."""

    run: Annotated[str, Meta(max_length=200)] | None = None
    tail: Annotated[int, Meta(ge=1, le=8 << 20)] = 1 << 20


@get("/live/jobs/{job_id:str}/log")
async def live_log(request: ApiRequest) -> ASGIApp:
    """The end of a run's log, and on while it grows."""
    visitor = await visit(request)
    wanted = request.query(Wanted)
    readers = request.coordinator.log_readers
    job = await request.coordinator.jobs.get(visitor.caller, request.path_name("job_id", "job"))
    if not job.runs:
        # A refusal would be a fault in the browser's eyes, and there is none.
        return sse.EventStream(_none_yet(), request.app.state.streams)
    run = await readers.find_run(visitor.caller, job.id, wanted.run)
    start, _ = await readers.resolve_range(run, offset=0, tail=wanted.tail, limit=None)
    start = last_event_id(request) or start
    pieces = readers.follow(visitor.caller, run, start)
    return sse.EventStream(logs.log_frames(pieces, start), request.app.state.streams)


async def _none_yet() -> AsyncIterator[bytes]:
    yield sse.frame({}, event="none")


class OneRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run."""

    run: Annotated[str, Meta(max_length=200)] | None = None


@get("/jobs/{job_id:str}/log.txt")
async def whole_log(request: ApiRequest) -> ASGIApp:
    """All of a run's log as a file; it is sent as it is read, and no browser holds it."""
    visitor = await visit(request)
    readers = request.coordinator.log_readers
    job_id = request.path_name("job_id", "job")
    run = await readers.find_run(visitor.caller, job_id, request.query(OneRun).run)
    start, end = await readers.resolve_range(run, offset=0, tail=None, limit=None)
    return AsFile(logs.LogDownload(readers.read(run, start, end), start, end), f"{run.id}.log")


class AsFile:
    """An answer that browsers save rather than show."""

    def __init__(self, answer: ASGIApp, name: str) -> None:
        self._answer = answer
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it under its name."""
        named = (b"content-disposition", f'attachment; filename="{self._name}"'.encode("latin-1"))

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], named]
            await send(message)

        await self._answer(scope, receive, send_named)


ROUTES = (live_log, whole_log)
