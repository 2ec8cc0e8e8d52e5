"""Query strings: the API decodes the record that the client encoded."""

import hashlib
from collections.abc import Iterator
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import pytest

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.workers.scaling import parse_shapes
from gigafactory.client import artifacts, events, fleet, jobs, scaling, workers
from gigafactory.client.transport.call import ApiCall
from gigafactory.domain.job.artifact import Purpose
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.wire.jobs import JobFilter
from gigafactory.wire.scaling import ScalingQuery


class Nothing:
    """A file without content."""

    size = 0
    sha256 = hashlib.sha256().hexdigest()

    def pieces(self) -> Iterator[bytes]:
        yield b""


CALLS: dict[str, ApiCall[Any]] = {
    "jobs": jobs.find(JobFilter(stage="queued,review", text="a&b", limit=5)),
    "jobs by id": jobs.find_by_ids(["a", "b"]),
    "parts of a job": jobs.get("a", include=["runs", "events"]),
    "events": events.events("a", after=7),
    "log": events.log("a", run="2", tail=100),
    "part of a log": events.log_part("a", offset=5, limit=10),
    "tail of a log": events.log_part("a", offset=-1, limit=10),
    "followed log": events.log_stream("a", run="2"),
    "log chunk": workers.log_chunk("a", 3, 14, b"text"),
    "insights": fleet.insights(["engine", "day"], since=date(2026, 11, 1), job="a"),
    "audit log": fleet.audit(limit=5, cursor="next"),
    "archive": artifacts.archived_jobs(limit=5, cursor="next"),
    "artifact": artifacts.add("a", Nothing(), name="a b.html", media_type="text/html", epoch=4),
    "diff": artifacts.add(
        "a", Nothing(), name="d", media_type="text/x-diff", epoch=4, purpose=Purpose.DIFF
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_api_reads_the_query_that_the_client_built(call: ApiCall[Any]) -> None:
    assert call.query is not None
    sent = urlsplit(call.target).query
    assert sent
    assert decode_query(sent.encode(), type(call.query)) == call.query


def test_parameters_with_their_default_value_are_not_sent() -> None:
    assert urlsplit(fleet.audit().target).query == ""
    assert urlsplit(scaling.scaling().target).query == ""


def test_the_api_reads_the_shapes_that_the_client_describes() -> None:
    plain = Shape(name="linux")
    large = Shape(
        name="mac",
        factories="keda.mac.",
        capabilities=("os:mac", "node:20"),
        engines={"claude": 2, "codex": 1},
        slots=3,
        products=("notes", "shop"),
        repos=("notes",),
        may_clone=False,
        minimum=1,
        maximum=7,
        warm=2,
        backlog=4,
    )
    sent = urlsplit(scaling.scaling([plain, large]).target).query
    assert parse_shapes(decode_query(sent.encode(), ScalingQuery)) == [plain, large]
