"""The shared store when a server fails: addresses of several hosts, and dead connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import asyncpg
import pytest

from gigafactory.coordinator.coordinator import INDEX_EVERY_S
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres import connection, listener
from gigafactory.store.postgres.address import single_hosts
from gigafactory.store.postgres.connection import Database
from gigafactory.store.postgres.listener import Listener
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.loops import run_every, run_in_background
from tests.services.postgres import Server
from tests.support.builders import a_job, a_submission

NOTICED_WITHIN_S = 15.0
"""Generous: it takes about a second."""
END_CONNECTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def with_two_hosts(dsn: str) -> str:
    """Return the address with an unreachable host in front."""
    return dsn.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:", 1)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("postgresql://ann:secret@one:5433,two/fleet", "one:5433,two:5432/fleet"),
        ("postgresql://ann:secret@/fleet?host=one,two&port=5433,5434", "one:5433,two:5434/fleet"),
        ("postgresql://one,two/fleet?port=5433", "one:5433,two:5433/fleet"),
        ("postgresql:///fleet", "localhost:5432/fleet"),
        ("postgresql://[::1]/fleet", "[::1]:5432/fleet"),
    ],
)
def test_an_address_of_several_hosts_is_named_without_its_password(address: str, name: str) -> None:
    assert str(Database(address, "gigafactory")) == name


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        (
            "postgresql://ann:secret@one:5433,[::1]/fleet?application_name=a%20b",
            (
                "postgresql://ann:secret@one:5433/fleet?application_name=a+b",
                "postgresql://ann:secret@[::1]/fleet?application_name=a+b",
            ),
        ),
        (
            "postgresql://ann@/fleet?host=one,two&port=1,2",
            ("postgresql://ann@/fleet?host=one&port=1", "postgresql://ann@/fleet?host=two&port=2"),
        ),
        ("postgresql://one/fleet", ("postgresql://one/fleet",)),
    ],
)
def test_each_host_of_an_address_has_an_address(address: str, hosts: tuple[str, ...]) -> None:
    assert single_hosts(address) == hosts


async def test_a_host_that_accepts_but_never_answers_does_not_hold_up_the_next(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_MAX_S", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        both = database.replace("127.0.0.1:", f"127.0.0.1:{port},127.0.0.1:", 1)
        async with PostgresStore.open(both) as store:
            assert await store.job("job-1") is None


async def test_a_server_that_only_reads_is_not_used(database: str) -> None:
    async with PostgresStore.open(database) as store:
        server = await asyncpg.connect(database)
        try:
            await server.execute(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only"
                " = on', current_database()); END $$"
            )
            await server.execute(END_CONNECTIONS)
        finally:
            await server.close()
        with pytest.raises(Unavailable, match="read-write"):
            await store.job("job-1")


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
    return Listener(where, lambda _, position: heard.put_nowait(position))


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
