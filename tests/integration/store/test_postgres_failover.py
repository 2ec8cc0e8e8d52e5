"""The shared store when a server fails: addresses of several hosts, and dead connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest

from gigafactory.coordinator.coordinator import INDEX_EVERY_S
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres import listener
from gigafactory.store.postgres.connection import Database
from gigafactory.store.postgres.listener import Listener
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.loops import run_every, run_in_background
from tests.services.postgres import Server
from tests.support.builders import a_job, a_submission

NOTICED_WITHIN_S = 15.0
"""Generous: it takes about a second."""


def with_two_hosts(dsn: str) -> str:
    """Return the address with an unreachable host in front."""
    return dsn.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:", 1)


def test_an_address_of_several_hosts_is_named_without_its_password() -> None:
    several = Database("postgresql://ann:secret@one:5433,two/fleet", "gigafactory")
    assert str(several) == "one:5433,two:5432/fleet"
    assert str(Database("postgresql:///fleet", "gigafactory")) == "localhost:5432/fleet"
    assert str(Database("postgresql://[::1]/fleet", "gigafactory")) == "[::1]:5432/fleet"


async def test_a_lost_server_of_several_hosts_is_unavailable(private_postgres: Server) -> None:
    async with PostgresStore.open(with_two_hosts(private_postgres.dsn())) as store:
        private_postgres.stop("immediate")
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1,127\.0\.0\.1:"):
            await store.job("job-1")
        with pytest.raises(Unavailable):
            await store.commit(a_submission(a_job()))
        private_postgres.start()
        while True:
            with suppress(Unavailable):
                assert await store.job("job-1") is None
                break


async def test_the_listener_survives_every_failure(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()
    where = Database(database, "gigafactory")
    working, calls = where.connect, iter([ValueError("a surprise"), OSError("gone")])

    async def connect() -> object:
        if (fault := next(calls, None)) is not None:
            raise fault
        return await working()

    monkeypatch.setattr(listener, "RETRY_S", 0.01)
    monkeypatch.setattr(where, "connect", connect)
    async with (
        PostgresStore.open(database),
        run_in_background(listening(where, heard).run()),
    ):
        assert await heard.get() == 0


def listening(where: Database, heard: asyncio.Queue[int]) -> Listener:
    async def connected() -> None:
        return

    return Listener(where, lambda _, position: heard.put_nowait(position), connected)


class Proxy:
    """A TCP proxy of a server that can silence listening connections without closing them."""

    def __init__(self, dsn: str) -> None:
        self._server = urlsplit(dsn)
        self._silenced = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Run the proxy and yield the address to connect to."""
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield self._server._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            await asyncio.gather(
                *(writer.wait_closed() for writer in self._writers), return_exceptions=True
            )

    def silence_listeners(self) -> None:
        """Stop delivery on all connections that listen now; they stay open."""
        self._silenced.set()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, port = self._server.hostname, self._server.port
        far_reader, far_writer = await asyncio.open_connection(to, port)
        self._writers += (writer, far_writer)
        listens = asyncio.Event()
        await asyncio.gather(
            self._copy(reader, far_writer, listens), self._copy(far_reader, writer, listens)
        )

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, listens: asyncio.Event
    ) -> None:
        while piece := await source.read(1 << 16):
            if b"LISTEN " in piece and not self._silenced.is_set():
                listens.set()
            if not (listens.is_set() and self._silenced.is_set()):
                sink.write(piece)
        sink.close()


async def test_commits_of_others_are_noticed_while_the_listening_connection_is_silent(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(database)
    async with (
        proxy.running() as through,
        PostgresStore.open(through) as one,
        PostgresStore.open(database) as other,
    ):
        index = Index(one, SystemClock(), fleet_seats={})
        await index.load()
        await other.commit(a_submission(a_job()))
        loop = run_every(INDEX_EVERY_S, index.catch_up, name="index", wake=index.wait_for_feed)
        async with run_in_background(loop), asyncio.timeout(NOTICED_WITHIN_S):
            while index.position < 1:
                await index.wait_for_update()
            proxy.silence_listeners()
            await other.commit(a_submission(a_job(id="job-2", name="job-2")))
            while index.position < 2:
                await index.wait_for_update()


async def test_a_silent_listening_connection_is_replaced(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "CHECK_EVERY_S", 0.05)
    monkeypatch.setattr(listener, "CHECK_MAX_S", 0.5)
    proxy = Proxy(database)
    heard: asyncio.Queue[int] = asyncio.Queue()
    async with proxy.running() as through, PostgresStore.open(database) as other:
        where = Database(through, "gigafactory")
        async with run_in_background(listening(where, heard).run()):
            assert await heard.get() == 0
            proxy.silence_listeners()
            await other.commit(a_submission(a_job()))
            while await heard.get() < 1:
                pass
