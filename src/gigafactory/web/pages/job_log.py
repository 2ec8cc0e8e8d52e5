"""Log of a job: its end with live updates, or all of it as a file."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import get
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import Meta, Struct

from gigafactory.api.http import sse
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.jobs import logs
from gigafactory.api.jobs.events import last_event_id
from gigafactory.web.site.session import require_session


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run, and the number of bytes from the end of its log."""

    run: Annotated[str, Meta(max_length=200)] | None = None
    tail: Annotated[int, Meta(ge=1, le=8 << 20)] = 1 << 20


@get("/live/jobs/{job_id:str}/log")
async def live_log(request: ApiRequest) -> ASGIApp:
    """Stream the end of a run's log and follow it."""
    session = await require_session(request)
    query = request.query(LogQuery)
    readers, streams = request.coordinator.log_readers, request.streams_of(session.caller)
    job = await request.coordinator.jobs.get(session.caller, request.path_name("job_id", "job"))
    if not job.runs:
        # The browser would log a refusal as an error, but a job without a log is normal.
        return sse.EventStream(_no_log_yet(), streams)
    run = await readers.find_run(session.caller, job.id, query.run)
    start, _ = await readers.resolve_range(run, offset=0, tail=query.tail, limit=None)
    start = last_event_id(request) or start
    pieces = readers.follow(session.caller, run, start)
    return sse.EventStream(logs.log_frames(pieces, start), streams)


async def _no_log_yet() -> AsyncIterator[bytes]:
    yield sse.frame({}, event="none")


class LogFileQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run; the latest by default."""

    run: Annotated[str, Meta(max_length=200)] | None = None


@get("/jobs/{job_id:str}/log.txt")
async def whole_log(request: ApiRequest) -> ASGIApp:
    """Download the whole log of a run."""
    session = await require_session(request)
    readers = request.coordinator.log_readers
    job_id = request.path_name("job_id", "job")
    run = await readers.find_run(session.caller, job_id, request.query(LogFileQuery).run)
    start, end = await readers.resolve_range(run, offset=0, tail=None, limit=None)
    return AttachmentResponse(
        logs.LogDownload(readers.read(run, start, end), start, end), f"{run.id}.log"
    )


class AttachmentResponse:
    """A response that browsers save as a file."""

    def __init__(self, response: ASGIApp, name: str) -> None:
        self._response = response
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response with a file name."""
        disposition = (
            b"content-disposition",
            f'attachment; filename="{self._name}"'.encode("latin-1"),
        )

        async def send_as_attachment(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], disposition]
            await send(message)

        await self._response(scope, receive, send_as_attachment)


ROUTES = (live_log, whole_log)
