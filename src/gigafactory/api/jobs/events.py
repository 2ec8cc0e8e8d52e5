"""Endpoints on a job's history: events, runs, explanation, event streams."""

import re

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http import sse
from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.scheduler.explain import Explanation
from gigafactory.wire.jobs import EVENT_NUMBER_MAX, EventQuery, EventsView, ResumeQuery
from gigafactory.wire.runs import RunsView

TAG = "Events"

# Python refuses to convert thousands of digits.
_NUMBER = re.compile(rb"[0-9]{1,19}")

EVENT = {
    "seq": 1,
    "type": "submitted",
    "at": NOON,
    "actor": "user:ann",
    "productId": "notes",
    "jobId": JOB_ID,
    "stage": "queued",
    "data": {},
    "position": 17,
}


@get(
    "/jobs/{job_id:str}/events",
    opt=operation(
        TAG,
        query=EventQuery,
        responses={200: Body(of=EventsView, example={"events": [EVENT]})},
        errors=(404,),
    ),
)
async def list_events(request: ApiRequest) -> ASGIApp:
    """List a job's events: every accepted change, in order, without gaps."""
    caller = await request.caller()
    page = request.query(EventQuery)
    jobs = request.coordinator.jobs
    job = await jobs.lookup(caller, request.path_name("job_id", "job"))
    events = await jobs.events(job, after=page.after, limit=page.limit)
    return json_response(EventsView(events=tuple(views.render_event(event) for event in events)))


def resume_position(request: ApiRequest) -> int | None:
    """Return the event number after which a stream resumes.

    Raises Invalid.
    """
    after = request.query(ResumeQuery).after
    last = last_event_id(request)
    return after if last is None else last


def last_event_id(request: ApiRequest) -> int | None:
    """Return the number in the header Last-Event-ID.

    Raises Invalid.
    """
    header = request.header(b"last-event-id")
    if header is None:
        return None
    if not _NUMBER.fullmatch(header) or int(header) > EVENT_NUMBER_MAX:
        fault = Fault("Last-Event-ID", "is not a number; send the unchanged id of the last event")
        raise Invalid("the request", [fault])
    return int(header)


STREAM = Body(
    media_type=sse.MEDIA_TYPE,
    description="events as they happen; if the server ends it, the last is `dropped` or `revoked`",
    example=f'id: 1\nevent: submitted\ndata: {{"seq": 1, "jobId": "{JOB_ID}"}}\n\n',
)


@get(
    "/jobs/{job_id:str}/events/stream",
    opt=operation(
        TAG, query=ResumeQuery, responses={200: STREAM}, errors=(404,), headers=("Last-Event-ID",)
    ),
)
async def stream_job_events(request: ApiRequest) -> ASGIApp:
    """Follow one job as server-sent events; the id of each is its seq.

    `Last-Event-ID` resumes without loss or repetition. A comment is sent every 15 seconds.
    """
    caller = await request.caller()
    streams = request.streams_of(caller)
    batches = await request.coordinator.event_streams.follow_job(
        caller, request.path_name("job_id", "job"), after=resume_position(request) or 0
    )
    frames = request.app.state.frames
    return sse.EventStream(sse.event_frames(batches, frames, lambda e: e.seq), streams)


@get(
    "/events/stream",
    opt=operation(TAG, query=ResumeQuery, responses={200: STREAM}, headers=("Last-Event-ID",)),
)
async def stream_product_events(request: ApiRequest) -> ASGIApp:
    """Follow a whole product as server-sent events; the id of each is its position.

    `x-product-id` chooses the product; the default is all products of the token. Starts with new
    events, or after `Last-Event-ID` without loss or repetition.
    """
    caller = await request.caller()
    streams = request.streams_of(caller)
    batches = await request.coordinator.event_streams.follow_product(
        caller, after=resume_position(request)
    )
    frames = request.app.state.frames
    return sse.EventStream(sse.event_frames(batches, frames, lambda e: e.position), streams)


@get(
    "/jobs/{job_id:str}/runs",
    opt=operation(TAG, responses={200: Body(of=RunsView)}, errors=(404,)),
)
async def list_runs(request: ApiRequest) -> ASGIApp:
    """List the runs of a job, oldest first, with usage and outcome."""
    caller = await request.caller_or_agent()
    jobs = request.coordinator.jobs
    runs = await jobs.runs(await jobs.lookup(caller, request.path_name("job_id", "job")))
    return json_response(RunsView(runs=tuple(views.render_run(run) for run in runs)))


@get(
    "/jobs/{job_id:str}/explain",
    opt=operation(TAG, responses={200: Body(of=Explanation)}, errors=(404,)),
)
async def explain_job(request: ApiRequest) -> ASGIApp:
    """Explain a job's state, or why it does not run yet."""
    caller = await request.caller()
    jobs = request.coordinator.jobs
    job = await jobs.lookup(caller, request.path_name("job_id", "job"))
    return json_response(await jobs.explain(job))


ROUTES = (
    list_events,
    stream_job_events,
    stream_product_events,
    list_runs,
    explain_job,
)
