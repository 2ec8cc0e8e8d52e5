"""Log endpoints: append chunks; read parts, tails and streams."""

import codecs
from collections.abc import AsyncIterator

from litestar import get, post
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as ASGIScope

from gigafactory.api.http import sse
from gigafactory.api.http.download import parse_range
from gigafactory.api.http.limits import CHUNK_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.jobs.events import last_event_id
from gigafactory.coordinator.files.log_readers import LogPiece, awaits_run
from gigafactory.domain.job.job import Job
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.files import LogChunkQuery, LogEnd, LogReadQuery

TAG = "Logs"
TEXT = "text/plain; charset=utf-8"


@post(
    "/jobs/{job_id:str}/logs",
    opt=operation(
        TAG,
        body=Body(media_type="application/octet-stream", example="installing…\n"),
        query=LogChunkQuery,
        responses={200: Body(of=LogEnd, example={"offset": 14})},
        errors=(404, 409),
    ),
)
async def append_log(request: ApiRequest) -> ASGIApp:
    """Append a chunk of at most 1 MiB to the log of the current run, fenced.

    Repeating a chunk has no effect. 409 `log_gap` with the `expectedOffset` after a gap.
    """
    caller = await request.factory()
    chunk = request.query(LogChunkQuery)
    data = await request.read_body(CHUNK_BYTES_MAX)
    end = await request.coordinator.logs.append(
        caller, request.path_name("job_id", "job"), chunk.lease_epoch, chunk.offset, data
    )
    return json_response(LogEnd(offset=end))


LOG = Body(
    media_type=TEXT,
    description="the raw log; with `follow`, a stream of it",
    other_media_types=(sse.MEDIA_TYPE,),
)
PART = Body(media_type=TEXT, description="the requested byte range")


@get(
    "/jobs/{job_id:str}/logs",
    opt=operation(
        TAG,
        query=LogReadQuery,
        responses={200: LOG, 206: PART},
        errors=(404, 416),
        headers=("Range", "Last-Event-ID"),
    ),
)
async def read_log(request: ApiRequest) -> ASGIApp:
    """Read the log of a run: all, a part, its tail, or follow it.

    `follow` waits for the next run if none has started; each message has `offset` and `text`, its
    id is the offset after it, and the last message is `end`. Otherwise the headers `x-log-offset`
    and `x-log-end` give the returned part. A single byte `Range` works if the query
    selects no part.
    """
    caller = await request.caller_or_agent()
    query = request.query(LogReadQuery)
    readers = request.coordinator.log_readers
    reference, after = request.path_name("job_id", "job"), last_event_id(request)
    if query.follow and query.run is None and after is None:
        job = await request.coordinator.jobs.lookup(caller, reference)
        if awaits_run(job):
            return sse.EventStream(
                _follow_next_run(request, caller, job), request.streams_of(caller)
            )
    run = await readers.find_run(caller, reference, query.run)
    start, end = await readers.resolve_range(
        run, offset=query.offset, tail=query.tail, limit=query.limit
    )
    if not query.follow:
        part = parse_range(_range(request), end) if query.is_whole else None
        first, last = part or (start, end)
        return LogDownload(readers.read(run, first, last), first, last, of=end if part else None)
    start = after or start
    frames = log_frames(readers.follow(caller, run, start), start)
    return sse.EventStream(frames, request.streams_of(caller))


async def _follow_next_run(request: ApiRequest, caller: Caller, job: Job) -> AsyncIterator[bytes]:
    """Follow the log of a job's next run; only an end if there is none."""
    readers = request.coordinator.log_readers
    run = await readers.wait_for_run(caller, job.id)
    if run is None:
        yield sse.frame({"offset": 0}, event="end")
        return
    async for message in log_frames(readers.follow(caller, run, 0), 0):
        yield message


def _range(request: ApiRequest) -> bytes | None:
    # A log has no ETag that If-Range could match, so the whole log is sent.
    return None if request.header(b"if-range") else request.header(b"range")


class LogDownload:
    """A streamed log response; `of` is the total size if a range was requested."""

    def __init__(
        self, pieces: AsyncIterator[bytes], start: int, end: int, *, of: int | None = None
    ) -> None:
        self._pieces = pieces
        self._start = start
        self._end = end
        self._of = of

    async def __call__(self, _scope: ASGIScope, _receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [
            (b"content-type", TEXT.encode()),
            (b"content-length", b"%d" % (self._end - self._start)),
            (b"cache-control", b"no-store"),
            (b"accept-ranges", b"bytes"),
            (b"x-log-offset", b"%d" % self._start),
            (b"x-log-end", b"%d" % self._end),
        ]
        if self._of is not None:
            sent = b"bytes %d-%d/%d" % (self._start, self._end - 1, self._of)
            headers.append((b"content-range", sent))
        status = 200 if self._of is None else 206
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def log_frames(pieces: AsyncIterator[LogPiece], start: int) -> AsyncIterator[bytes]:
    """Encode a log as server-sent events, each with complete characters."""
    # A character may be split between pieces: its bytes are held back until it is complete.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    async for piece in pieces:
        text = decoder.decode(piece.data)
        whole = piece.end - len(decoder.getstate()[0])
        if text:
            yield sse.frame({"offset": start, "text": text}, id_=whole)
            start = whole
    yield sse.frame({"offset": start}, event="end")


ROUTES = (append_log, read_log)
