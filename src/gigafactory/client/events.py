"""Calls on the history of a job: events, runs, logs, explanation."""

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.scheduler.explain import Explanation
from gigafactory.wire.files import LogReadQuery
from gigafactory.wire.jobs import EventQuery, EventsView
from gigafactory.wire.runs import RunsView

Stream = ApiCall[object]
"""A call whose response is a stream of events."""


def events(job: str, *, after: int = 0) -> ApiCall[EventsView]:
    """Return up to 500 events of a job after a sequence number."""
    query = EventQuery(after=after)
    return ApiCall(
        method="GET", path=path("jobs", job, "events"), response_type=EventsView, query=query
    )


def runs(job: str) -> ApiCall[RunsView]:
    """List the runs of a job, oldest first."""
    return ApiCall(method="GET", path=path("jobs", job, "runs"), response_type=RunsView)


def explanation(job: str) -> ApiCall[Explanation]:
    """Explain a job's state, or why it does not run yet."""
    return ApiCall(method="GET", path=path("jobs", job, "explain"), response_type=Explanation)


def log(job: str, *, run: str | None = None, tail: int | None = None) -> ApiCall[bytes]:
    """Read the log of a run (default: the newest), or its last bytes."""
    query = LogReadQuery(run=run, tail=tail)
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=bytes, query=query)


def log_part(job: str, *, run: str | None = None, offset: int, limit: int) -> ApiCall[bytes]:
    """Read at most `limit` bytes of a run's log from an offset; a negative one reads the tail.

    The response headers x-log-offset and x-log-end give the returned part.
    """
    query = (
        LogReadQuery(run=run, tail=limit)
        if offset < 0
        else LogReadQuery(run=run, offset=offset, limit=limit)
    )
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=bytes, query=query)


def job_stream(job: str) -> Stream:
    """Follow the events of one job."""
    return ApiCall(method="GET", path=path("jobs", job, "events", "stream"), response_type=object)


def product_stream() -> Stream:
    """Follow the events of the chosen product, or of all products of the token."""
    return ApiCall(method="GET", path=path("events", "stream"), response_type=object)


def log_stream(job: str, *, run: str | None = None, tail: int | None = None) -> Stream:
    """Follow a run's log; the last event is `end`."""
    query = LogReadQuery(run=run, tail=tail, follow=True)
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=object, query=query)
