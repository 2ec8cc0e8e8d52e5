"""Event streams over HTTP: each event once, in order, without a gap after a reconnect."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, StreamMessage, Worker, open_stream

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def submit(client: httpx.AsyncClient, name: str = "a") -> str:
    answer = await client.post("/jobs", json={"manifest": {"name": name}, "body": "Do it."})
    job_id: str = answer.json()["id"]
    return job_id


@pytest_asyncio.fixture(loop_scope="module")
async def viewer(server: Server, product: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that sees the test's product, but not the fleet's audit log."""
    token = await server.token("vera", Role.VIEWER, [product])
    async with server.client(token, product=None) as client:
        yield client


async def taken(messages: AsyncIterator[StreamMessage], count: int) -> list[StreamMessage]:
    return [await anext(messages) for _ in range(count)]


async def test_job_stream_replays_its_events_and_continues(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    async with open_stream(admin, f"/jobs/{job_id}/events/stream") as messages:
        first = await anext(messages)
        assert (first.id, first.event, first.data["jobId"]) == ("1", "submitted", job_id)
        grant = await worker.granted()
        await worker.report(grant, stage="building")
        later = await taken(messages, 2)
    assert [(m.id, m.event) for m in later] == [("2", "assigned"), ("3", "started")]
    assert [m.data["seq"] for m in later] == [2, 3]


async def test_reconnected_stream_neither_loses_nor_repeats_events(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    seen: list[StreamMessage] = []
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    for number in range(12):
        last = {"last-event-id": seen[-1].id or ""} if seen else {}
        async with open_stream(admin, f"/jobs/{job_id}/events/stream", **last) as messages:
            await worker.report(grant, note=f"step {number}")
            seen += await taken(messages, 4 if not seen else 1)
    assert [m.id for m in seen] == [str(n) for n in range(1, 16)]
    async with open_stream(admin, f"/jobs/{job_id}/events/stream?after=14") as messages:
        assert (await anext(messages)).id == "15"


async def test_concurrent_followers_receive_the_same_events(
    admin: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    async def listen(messages: AsyncIterator[StreamMessage]) -> list[StreamMessage]:
        return await taken(messages, 20)

    async with (
        open_stream(viewer, "/events/stream?after=0") as one,
        open_stream(viewer, "/events/stream?after=0") as two,
    ):
        listening = [asyncio.create_task(listen(messages)) for messages in (one, two)]
        await asyncio.gather(*(submit(admin, f"job-{number}") for number in range(20)))
        first, second = await asyncio.gather(*listening)
    assert first == second
    positions = [int(message.id or 0) for message in first]
    assert positions == sorted(set(positions))
    assert {message.data["jobId"] for message in first} == {
        job["id"] for job in (await admin.get("/jobs")).json()["jobs"]
    }


async def test_product_stream_resumes_by_position(
    admin: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    for name in ("a", "b", "c"):
        await submit(admin, name)
    async with open_stream(viewer, "/events/stream?after=0") as messages:
        first, second = await taken(messages, 2)
    resumed = {"last-event-id": first.id or ""}
    async with open_stream(viewer, "/events/stream", **resumed) as messages:
        again, third = await taken(messages, 2)
    assert again == second
    assert (await admin.get("/jobs/c")).json()["id"] == third.data["jobId"]


async def test_product_stream_without_a_position_starts_now(
    admin: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    await submit(admin, "before")
    async with open_stream(viewer, "/events/stream") as messages:
        job_id = await submit(admin, "after")
        assert (await anext(messages)).data["jobId"] == job_id


async def test_stream_shows_no_events_of_another_product(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    token = await server.token("eve", products=[f"{product}-other"])
    job_id = await submit(admin)
    async with server.client(token, product=None) as eve:
        assert (await eve.get(f"/jobs/{job_id}/events/stream")).status_code == 404
        async with open_stream(eve, "/events/stream?after=0") as messages:
            await submit(admin, "b")
            theirs = await submit(eve, "hers")
            seen = await anext(messages)
            while seen.data["jobId"] is None:
                assert seen.data["productId"] == f"{product}-other"
                seen = await anext(messages)
    assert seen.data["jobId"] == theirs


async def test_a_revoked_token_ends_its_open_streams(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    made = (await admin.post("/tokens", json={"user": "bob", "products": [product]})).json()
    job_id = await submit(admin)
    async with (
        server.client(made["secret"], product=None) as bob,
        open_stream(bob, f"/jobs/{job_id}/events/stream") as story,
        open_stream(bob, "/events/stream") as product_stream,
    ):
        await anext(story)
        assert (await admin.delete(f"/tokens/{made['id']}")).json()["revokedAt"]
        assert [message.event async for message in story] == ["revoked"]
        assert [message.event async for message in product_stream] == ["revoked"]


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30, "9" * 5000])
async def test_invalid_last_event_id_is_rejected(admin: httpx.AsyncClient, last: str) -> None:
    answer = await admin.get("/events/stream", headers={"last-event-id": last})
    assert answer.status_code == 422
    assert answer.json()["faults"][0]["field"] == "Last-Event-ID"
