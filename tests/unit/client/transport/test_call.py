"""The client's rules without a network: retries, refusals and broken streams."""

import pytest

from gigafactory.client import fleet, jobs
from gigafactory.client.transport.call import ApiCall, CallSteps, Reply, Wait, call_steps
from gigafactory.client.transport.problems import (
    BY_CODE,
    ConnectionBroken,
    ServerFailed,
    Unreachable,
    parse_refusal,
)
from gigafactory.client.transport.sse import ServerEvent, SseParser
from gigafactory.domain.errors import (
    Conflict,
    Cycle,
    Fenced,
    Forbidden,
    Invalid,
    LogGap,
    Refused,
    TooManyRequests,
    Unavailable,
)
from gigafactory.wire.jobs import JobFilter

GET = ApiCall(method="GET", path="/api/fleet/x", response_type=dict[str, int])
OK = Reply(200, b'{"a": 1}', {})
AWAY = Reply(503, b'{"code": "unavailable", "detail": "the store is away"}', {})


def answers(going: CallSteps, *replies: Reply | ConnectionBroken) -> tuple[list[str], bytes]:
    """Run a call with these replies; return the keys that were sent and the response body."""
    keys = [str(next(going))]
    result = iter(replies)
    step: str | Wait
    reply: Reply | ConnectionBroken | None = next(result)
    while True:
        try:
            step = going.send(reply)
        except StopIteration as end:
            return keys, end.value.body
        if isinstance(step, Wait):
            reply = None
        else:
            keys.append(step)
            reply = next(result)


def test_successful_reply_ends_the_call() -> None:
    keys, body = answers(call_steps(GET), OK)
    assert len(keys) == 1
    assert GET.decode(body) == {"a": 1}


def test_unavailable_store_is_retried_under_the_same_key() -> None:
    keys, body = answers(call_steps(GET), AWAY, ConnectionBroken("broke"), OK)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert body == OK.body


def test_retries_end_after_the_last_pause() -> None:
    with pytest.raises(Unavailable, match="the store is away"):
        answers(call_steps(GET, (0.1,)), AWAY, AWAY)


def test_call_that_returns_a_secret_is_never_retried() -> None:
    with pytest.raises(ConnectionBroken):
        answers(call_steps(fleet.rotate("mac-1")), ConnectionBroken("broke"), OK)


def test_refusal_is_raised_at_once() -> None:
    with pytest.raises(Forbidden, match="not you"):
        answers(call_steps(GET), Reply(403, b'{"code": "forbidden", "detail": "not you"}', {}))


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_refusal_code_is_parsed_to_its_class(code: str) -> None:
    found = parse_refusal(409, b'{"code": "%s", "detail": "a sentence"}' % code.encode())
    assert type(found) is BY_CODE[code]
    assert found.code == code
    assert found.detail == "a sentence"


def test_fenced_refusal_carries_the_current_epoch() -> None:
    body = b'{"code": "fenced", "detail": "d", "jobId": "j", "presented": 1, "current": 3}'
    found = parse_refusal(409, body)
    assert isinstance(found, Fenced)
    assert (found.job_id, found.presented, found.current) == ("j", 1, 3)


def test_refusal_fields_are_parsed() -> None:
    gap = parse_refusal(409, b'{"code": "log_gap", "detail": "d", "expectedOffset": 7}')
    assert isinstance(gap, LogGap)
    assert gap.expected == 7
    many = parse_refusal(429, b'{"code": "too_many", "detail": "d", "retryAfter": 3}')
    assert isinstance(many, TooManyRequests)
    assert many.retry_after_s == 3
    circle = parse_refusal(409, b'{"code": "cycle", "detail": "d", "path": ["a", "b", "a"]}')
    assert isinstance(circle, Cycle)
    assert list(circle.path) == ["a", "b", "a"]


def test_faults_are_parsed_with_their_places() -> None:
    faults = b'[{"field": "timeout", "message": "m", "line": 4}]'
    body = b'{"code": "invalid", "detail": "d", "faults": %s}' % faults
    found = parse_refusal(422, body)
    assert isinstance(found, Invalid)
    assert [str(fault) for fault in found.faults] == ["line 4: timeout: m"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ServerFailed),
        (404, ServerFailed),
        (409, ServerFailed),
        (413, ServerFailed),
        (418, ServerFailed),
        (429, TooManyRequests),
        (500, ServerFailed),
        (502, ServerFailed),
        (503, Unavailable),
    ],
)
def test_error_page_without_a_code_is_classified_by_its_status(
    status: int, kind: type[Refused]
) -> None:
    found = parse_refusal(status, b"<html>")
    assert type(found) is kind
    assert f"answered {status} without a reason" in found.detail
    assert "check the URL" in found.detail
    assert str(status) in found.detail


def test_unknown_refusal_code_is_kept() -> None:
    found = parse_refusal(409, b'{"code": "new_one", "detail": "d"}')
    assert (type(found), found.code) == (Conflict, "new_one")


def test_job_name_is_escaped_in_the_path() -> None:
    assert jobs.get("../a b?c").target == "/api/fleet/jobs/..%2Fa%20b%3Fc"


def test_only_given_filters_are_sent() -> None:
    assert jobs.find(JobFilter()).target == "/api/fleet/jobs"
    wanted = JobFilter(stage="queued,review", text="a&b", limit=5)
    assert jobs.find(wanted).target == "/api/fleet/jobs?stage=queued%2Creview&text=a%26b&limit=5"


def test_reads_carry_no_idempotency_key_and_writes_do() -> None:
    assert "idempotency-key" not in GET.headers("t", None, "k")
    result = jobs.act("j", "ship").headers("t", "notes", "k")
    assert result["idempotency-key"] == "k"
    assert result["x-product-id"] == "notes"
    assert result["authorization"] == "Bearer t"


def fed(reader: SseParser, text: str) -> list[ServerEvent]:
    return [sent for line in text.split("\n") if (sent := reader.feed(line))]


def test_sse_lines_become_events() -> None:
    reader = SseParser()
    result = fed(reader, ': ping\n\nid: 7\nevent: started\ndata: {"a":\ndata: 1}\n\n')
    assert result == [ServerEvent("started", '{"a":\n1}', "7")]
    assert reader.headers()["last-event-id"] == "7"


def test_partial_event_of_a_broken_connection_is_dropped() -> None:
    reader = SseParser(after="1")
    assert fed(reader, "id: 2\nevent: started\ndata: x") == []
    assert reader.headers()["last-event-id"] == "1"
    assert fed(reader, "id: 2\ndata: y\n\n") == [ServerEvent("message", "y", "2")]


def test_dropped_notice_of_the_server_is_not_an_event() -> None:
    assert fed(SseParser(), 'event: dropped\ndata: {"reason": "dropped"}\n\n') == []


def test_received_event_resets_the_reconnect_pauses() -> None:
    reader = SseParser(retry_delays=(0.1, 0.2))
    assert [reader.pause("broke"), reader.pause("broke")] == [0.1, 0.2]
    fed(reader, "id: 1\ndata: x\n\n")
    assert reader.pause("broke") == 0.1
    reader.pause("broke")
    with pytest.raises(Unreachable, match="broke"):
        reader.pause("broke")
