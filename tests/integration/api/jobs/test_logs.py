"""Logs over HTTP: fenced uploads of chunks, and reads of ranges, tails and streams."""

import httpx
import pytest

from tests.support.api_server import Server, Worker, open_stream

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20


async def running(admin: httpx.AsyncClient, worker: Worker) -> str:
    answer = await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "Do it."})
    await worker.granted()
    job_id: str = answer.json()["id"]
    return job_id


async def send(worker: Worker, job_id: str, offset: int, data: bytes) -> httpx.Response:
    return await worker.http.post(
        f"/jobs/{job_id}/logs", params={"leaseEpoch": 1, "offset": offset}, content=data
    )


async def test_chunks_are_appended_to_one_log(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    assert (await send(worker, job_id, 0, b"one\n")).json() == {"offset": 4}
    assert (await send(worker, job_id, 4, b"two\n")).json() == {"offset": 8}
    answer = await admin.get(f"/jobs/{job_id}/logs")
    assert (answer.status_code, answer.text) == (200, "one\ntwo\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_repeated_chunk_is_harmless(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    for offset, data in ((0, b"one\n"), (0, b"one\n"), (2, b"e\ntwo\n"), (0, b"one\ntwo\n")):
        assert (await send(worker, job_id, offset, data)).status_code == 200
    assert (await admin.get(f"/jobs/{job_id}/logs")).text == "one\ntwo\n"


async def test_log_gap_is_rejected_with_the_expected_offset(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    await send(worker, job_id, 0, b"one\n")
    answer = await send(worker, job_id, 9, b"later")
    assert (answer.status_code, answer.json()["code"]) == (409, "log_gap")
    assert answer.json()["expectedOffset"] == 4


async def test_a_log_grows_past_empty_chunks_that_a_power_cut_left(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    await send(worker, job_id, 0, b"one\n")
    folder = server.blobs / "logs" / job_id / "1"
    for name in ("0000000000000004", "0000000000000004.1"):
        (folder / name).touch()
    assert (await send(worker, job_id, 4, b"two\n")).json() == {"offset": 8}
    assert (await send(worker, job_id, 8, b"three\n")).json() == {"offset": 14}
    assert (await admin.get(f"/jobs/{job_id}/logs")).text == "one\ntwo\nthree\n"
    assert (await admin.get(f"/jobs/{job_id}/logs", params={"offset": 6})).text == "o\nthree\n"


async def test_chunk_above_one_mebibyte_is_rejected(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    assert (await send(worker, job_id, 0, b"x" * MIB)).json() == {"offset": MIB}
    answer = await send(worker, job_id, MIB, b"x" * (MIB + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("query", ["leaseEpoch=1", "offset=0", "leaseEpoch=1&offset=-1"])
async def test_chunk_without_epoch_or_offset_is_rejected(
    admin: httpx.AsyncClient, worker: Worker, query: str
) -> None:
    job_id = await running(admin, worker)
    answer = await worker.http.post(f"/jobs/{job_id}/logs?{query}", content=b"x")
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("offset=4", "two\nthree\n"),
        ("offset=4&limit=3", "two"),
        ("tail=6", "three\n"),
        ("tail=6&limit=2", "th"),
        ("offset=1000", ""),
        ("run=1", "one\ntwo\nthree\n"),
    ],
)
async def test_offset_limit_and_tail_select_a_part_of_a_log(
    admin: httpx.AsyncClient, worker: Worker, query: str, text: str
) -> None:
    job_id = await running(admin, worker)
    offset = 0
    for data in (b"one\n", b"two\n", b"three\n"):
        offset = (await send(worker, job_id, offset, data)).json()["offset"]
    answer = await admin.get(f"/jobs/{job_id}/logs?{query}")
    assert answer.text == text
    assert int(answer.headers["x-log-end"]) - int(answer.headers["x-log-offset"]) == len(text)


async def test_a_range_of_a_log_is_read(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    await send(worker, job_id, 0, b"one\ntwo\n")
    await send(worker, job_id, 8, b"three\n")
    log = f"/jobs/{job_id}/logs"
    part = await admin.get(log, headers={"range": "bytes=6-9"})
    assert (part.status_code, part.text) == (206, "o\nth")
    assert part.headers["content-range"] == "bytes 6-9/14"
    assert (part.headers["content-length"], part.headers["accept-ranges"]) == ("4", "bytes")
    end = await admin.get(log, headers={"range": "bytes=-6"})
    assert (end.text, end.headers["content-range"]) == ("three\n", "bytes 8-13/14")
    beyond = await admin.get(log, headers={"range": "bytes=14-"})
    assert (beyond.status_code, beyond.json()["code"]) == (416, "range_not_satisfiable")
    assert beyond.headers["content-range"] == "bytes */14"


@pytest.mark.parametrize(
    ("query", "headers", "text"),
    [
        ("", {"range": "bytes=0-0,2-2"}, "one\ntwo\n"),
        ("", {"range": "bytes=0-2", "if-range": '"etag"'}, "one\ntwo\n"),
        ("?tail=4", {"range": "bytes=0-2"}, "two\n"),
    ],
    ids=["several", "if-range", "a part already"],
)
async def test_inapplicable_range_is_ignored(
    admin: httpx.AsyncClient, worker: Worker, query: str, headers: dict[str, str], text: str
) -> None:
    job_id = await running(admin, worker)
    await send(worker, job_id, 0, b"one\ntwo\n")
    answer = await admin.get(f"/jobs/{job_id}/logs{query}", headers=headers)
    assert (answer.status_code, answer.text) == (200, text)


async def test_follow_waits_for_the_first_run_of_a_job(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job = (await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "Do it."})).json()
    assert (await admin.get("/jobs/a/logs")).status_code == 404
    async with open_stream(admin, "/jobs/a/logs?follow=true") as messages:
        grant = await worker.granted()
        await send(worker, job["id"], 0, b"one\n")
        assert (await anext(messages)).data["text"] == "one\n"
        for result in ({"stage": "building"}, {"stage": "failed", "result": "crash"}):
            assert (await worker.report(grant, **result)).status_code == 200
        assert (await anext(messages)).event == "end"


async def test_follow_without_a_run_ends_with_the_job(admin: httpx.AsyncClient) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "Do it."})
    async with open_stream(admin, "/jobs/a/logs?follow=true") as messages:
        await admin.post("/jobs/a/actions/cancel", json={"reason": "not needed"})
        assert (await anext(messages)).event == "end"


async def test_a_log_is_followed_until_its_run_ends(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    await send(worker, job_id, 0, "grüß ".encode()[:3])
    async with open_stream(admin, f"/jobs/{job_id}/logs?follow=true") as messages:
        assert (await anext(messages)).data == {"offset": 0, "text": "gr"}
        await send(worker, job_id, 3, "grüß ".encode()[3:])
        second = await anext(messages)
        assert (second.data, second.id) == ({"offset": 2, "text": "üß "}, "7")
        await worker.http.post(
            "/fail", json={"jobId": job_id, "leaseEpoch": 1, "result": "crash", "reason": "x"}
        )
        end = await anext(messages)
        assert (end.event, end.data) == ("end", {"offset": 7})
        assert [message async for message in messages] == []
    resumed = {"last-event-id": "2"}
    async with open_stream(admin, f"/jobs/{job_id}/logs?follow=true", **resumed) as messages:
        assert [m.data.get("text") async for m in messages] == ["üß ", None]


async def test_log_of_a_missing_run_is_not_found(admin: httpx.AsyncClient, worker: Worker) -> None:
    await admin.post("/jobs", json={"manifest": {"name": "idle"}})
    assert (await admin.get("/jobs/idle/logs")).status_code == 404
    job_id = await running(admin, worker)
    assert (await admin.get(f"/jobs/{job_id}/logs?run=7")).status_code == 404


async def test_a_log_of_another_product_is_not_found(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    async with server.client(await server.token("eve", products=["eve"]), product=None) as eve:
        assert (await eve.get(f"/jobs/{job_id}/logs")).status_code == 404
