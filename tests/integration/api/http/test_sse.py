"""Event streams: followers that fall behind, keep-alive comments, expired tokens and limits."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gigafactory.api.http.sse import EventStream, OpenStreams, TokenStreams
from gigafactory.coordinator.insights import event_streams as streams_of
from gigafactory.coordinator.insights.event_streams import EventStreams
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import SYSTEM, a_coordinator, a_server, open_stream
from tests.support.polling import until

ANN = replace(SYSTEM, product="notes")
BEHIND_MAX = 5


async def test_follower_that_falls_behind_is_dropped(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    async with fleet.running():
        streams = EventStreams(
            fleet.store, fleet.index, fleet.jobs, fleet.tokens, behind_max=BEHIND_MAX
        )
        batches = await streams.follow_product(ANN)
        first = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        await fleet.submissions.submit(ANN, [parse_json_job({"body": "one"})])
        assert len((await first).events) == 1
        files = [parse_json_job({"body": f"{number}"}) for number in range(BEHIND_MAX + 1)]
        await fleet.submissions.submit(ANN, files)
        await fleet.index.catch_up()
        assert [batch.ended async for batch in batches] == ["dropped"]


async def test_returning_follower_receives_all_missed_events(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    async with fleet.running():
        files = [parse_json_job({"body": f"{number}"}) for number in range(4 * BEHIND_MAX)]
        await fleet.submissions.submit(ANN, files)
        streams = EventStreams(
            fleet.store, fleet.index, fleet.jobs, fleet.tokens, behind_max=BEHIND_MAX
        )
        batch = await anext(await streams.follow_product(ANN, after=0))
        assert len(batch.events) == 4 * BEHIND_MAX


async def test_a_comment_keeps_a_silent_stream_open() -> None:
    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    commented, left = asyncio.Event(), asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body") == b":\n\n":
            commented.set()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    open_streams = OpenStreams()
    stream = EventStream(silence(), TokenStreams(open_streams, "t"), ping_s=0.001)
    sending = asyncio.create_task(stream({}, receive, send))  # type: ignore[arg-type]
    await commented.wait()
    assert len(open_streams) == 1
    left.set()
    await sending
    assert len(open_streams) == 0


async def test_token_expiry_ends_a_silent_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_of, "LOOK_AGAIN_S", 0.01)
    fleet = a_coordinator(tmp_path)
    async with fleet.running():
        made = await fleet.tokens.issue(
            SYSTEM, "ann", Role.VIEWER, ("*",), lasts=timedelta(milliseconds=50)
        )
        caller = await fleet.tokens.caller(made.secret, product=None)
        batches = await fleet.event_streams.follow_product(caller)
        assert [batch.ended async for batch in batches] == ["revoked"]


async def test_one_token_cannot_open_streams_without_end(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin:
        server.app.state.streams = OpenStreams(per_token=2)
        other = await server.token("bob")
        async with open_stream(admin, "/events/stream"), open_stream(admin, "/events/stream"):
            refused = await admin.get("/events/stream")
            assert refused.status_code == 429
            assert "open streams" in refused.json()["detail"]
            assert refused.headers["retry-after"] == "5"
            async with server.client(other) as bob, open_stream(bob, "/events/stream"):
                pass
        await until(lambda: len(server.app.state.streams) == 0)
        async with open_stream(admin, "/events/stream"):
            pass
