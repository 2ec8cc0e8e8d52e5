"""The calls that tell how a job came to be where it is: events, runs, logs, explanations."""

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.scheduler.explain import Explanation
from gigafactory.wire.jobs import EventsView
from gigafactory.wire.runs import RunsView

Stream = ApiCall[object]
"""A call that is followed, event by event."""


def events(job: str, *, after: int = 0) -> ApiCall[EventsView]:
    """The next 500 events of a job above a seq."""
    query = {"after": after or None}
    return ApiCall(
        method="GET", path=path("jobs", job, "events"), response_type=EventsView, query=query
    )


def runs(job: str) -> ApiCall[RunsView]:
    """Every attempt at a job, oldest first."""
    return ApiCall(method="GET", path=path("jobs", job, "runs"), response_type=RunsView)


def explanation(job: str) -> ApiCall[Explanation]:
    """Why a job is where it is, or why it does not run yet."""
    return ApiCall(method="GET", path=path("jobs", job, "explain"), response_type=Explanation)


def log(job: str, *, run: str | None = None, tail: int | None = None) -> ApiCall[bytes]:
    """The log of a run, by default of the newest, or its last bytes."""
    query = {"run": run, "tail": tail}
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=bytes, query=query)


def log_part(job: str, *, run: str | None = None, offset: int, limit: int) -> ApiCall[bytes]:
    """At most so many bytes of a run's log from an offset on; a negative one counts from its end.

    The headers x-log-offset and x-log-end of the answer say which they are.
    """
    part = {"tail": limit} if offset < 0 else {"offset": offset, "limit": limit}
    query = {"run": run, **part}
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=bytes, query=query)


def job_stream(job: str) -> Stream:
    """The events of one job, as they come."""
    return ApiCall(method="GET", path=path("jobs", job, "events", "stream"), response_type=object)


def product_stream() -> Stream:
    """The events of the chosen product, or of all that the token covers, as they come."""
    return ApiCall(method="GET", path=path("events", "stream"), response_type=object)


def log_stream(job: str, *, run: str | None = None, tail: int | None = None) -> Stream:
    """A run's log as it grows; its last event is `end`."""
    query = {"run": run, "tail": tail, "follow": True}
    return ApiCall(method="GET", path=path("jobs", job, "logs"), response_type=object, query=query)
