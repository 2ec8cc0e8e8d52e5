"""Sources of work: the gate, the offer stream, and polling while the stream fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest_asyncio
from structlog.testing import capture_logs

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.factory.agent.work_source import DeliveryMode, PollIntervals, WorkItem, WorkSource
from gigafactory.wire.fleet import HeartbeatDoc
from gigafactory.wire.workers import GrantView
from tests.support.factory.local_fleet import LocalHarness, a_local_harness
from tests.support.polling import until

ME = "mac-1"
AS_I_AM = HeartbeatDoc(factory_id=ME, instance_id="mac-1-a", slots=4, seats={"command": 4})
AWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
OFTEN = PollIntervals(poll_s=0.05, forced_poll_s=0.2, stream_retry_s=0.2)


class Middlebox:
    """A proxy between a factory and its coordinator that can block the offer stream."""

    def __init__(self, upstream: str) -> None:
        self._host = urlsplit(upstream)
        self.blocks = True

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve the proxy until the block ends and yield its address."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection(self._host.hostname, self._host.port)
        back = asyncio.create_task(_pump(far, to_near))
        while chunk := await near.read(65536):
            if self.blocks and b"/offers " in chunk.partition(b"\r\n")[0]:
                to_near.write(AWAY)
                break
            to_far.write(chunk)
        back.cancel()
        to_far.close()
        to_near.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(65536):
        sink.write(chunk)
    sink.close()


class Taker:
    """A factory that accepts every job and runs none."""

    def __init__(self, client: AsyncClient, mode: DeliveryMode) -> None:
        self._client = client
        self._source = WorkSource(
            client, ME, "mac-1-a", mode=mode, can_start=lambda _: True, intervals=OFTEN
        )
        self.taken: list[str] = []

    async def is_there(self) -> None:
        await self._client.send(workers.heartbeat(AS_I_AM))

    async def take(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._take(self._source.receive()))
            tasks.create_task(self._take(self._source.poll_alongside_stream()))

    async def _take(self, works: AsyncIterator[WorkItem]) -> None:
        async for work in works:
            if isinstance(work, GrantView):
                self.taken.append(work.job.id)
            elif work.type == "ask":
                self._source.polling_requested.set()


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


@asynccontextmanager
async def taking(
    harness: LocalHarness, mode: DeliveryMode, url: str | None = None
) -> AsyncIterator[Taker]:
    """Join the fleet as a factory and take jobs until the block ends."""
    async with AsyncExitStack() as stack:
        client = AsyncClient(url or harness.server.url, await harness.token(ME))
        taker = Taker(await stack.enter_async_context(client), mode)
        await taker.is_there()
        work = asyncio.create_task(taker.take())
        try:
            yield taker
        finally:
            work.cancel()
            await asyncio.wait([work])


async def test_factory_in_gate_mode_claims_a_job_that_becomes_due(harness: LocalHarness) -> None:
    with capture_logs() as said:
        async with taking(harness, DeliveryMode.GATE) as taker:
            job_id = await harness.submit("true", repo=None, notBefore="1h")
            said.clear()
            in_vain = ("/claim", 204)
            await until(lambda: [_request(line) for line in said].count(in_vain) > 1)
            harness.clock.advance(timedelta(hours=2))
            await taker.is_there()
            await until(lambda: taker.taken == [job_id])


async def test_factory_claims_while_its_offer_stream_fails_and_then_reconnects(
    harness: LocalHarness,
) -> None:
    box = Middlebox(harness.server.url)
    with capture_logs() as said:
        async with box.serving() as url, taking(harness, DeliveryMode.STREAM, url) as taker:
            asked_for = await harness.submit("true", repo=None)
            await until(lambda: taker.taken == [asked_for])
            box.blocks = False
            await until(lambda: _streams(harness))
            offered = await harness.submit("true", repo=None)
            await until(lambda: taker.taken == [asked_for, offered])
    assert "offered" not in await harness.event_types(asked_for)
    assert "offered" in await harness.event_types(offered)
    assert any(line["event"].startswith("offer stream failed") for line in said)


async def test_factory_with_an_offer_stream_also_claims_jobs_in_pull_mode(
    harness: LocalHarness,
) -> None:
    async with taking(harness, DeliveryMode.STREAM) as taker:
        await until(lambda: _streams(harness))
        (await harness.api.put("/shadow/notes", json={"mode": "pull"})).raise_for_status()
        asked_for = await harness.submit("true", repo=None)
        await until(lambda: taker.taken == [asked_for])
    assert "offered" not in await harness.event_types(asked_for)


def _request(line: Any) -> tuple[str, int]:  # noqa: ANN401 - whatever was logged
    return "/" + str(line.get("path", "")).rpartition("/")[2], line.get("status", 0)


async def _streams(harness: LocalHarness) -> bool:
    data = (await harness.api.get("/factories")).json()
    return bool(data["factories"][0]["streaming"])
