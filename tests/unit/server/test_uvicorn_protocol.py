"""The head of a response is sent with its body, but never waits for a late body."""

import asyncio
from collections.abc import Iterable

from litestar.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from gigafactory.server.uvicorn_protocol import SingleWriteProtocol

QUESTION = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
HEAD_ALONE = b"HEAD / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n"


class Line(asyncio.Transport):
    """A connection that records each write and whether it is closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written after its end"
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: the test reads nothing."""

    def resume_reading(self) -> None:
        """Do nothing: the test reads nothing."""


class App:
    """An app that sends a head and these pieces; it waits for `go_on` at each empty piece."""

    def __init__(self, *pieces: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        self._pieces = pieces
        self._headers = headers or []
        self.go_on = asyncio.Event()
        self.told = asyncio.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        for piece in self._pieces:
            if not piece:
                self.told.set()
                await self.go_on.wait()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.told.set()


def asked(app: App, question: bytes = QUESTION) -> Line:
    """Return the connection of a client that has just sent a request."""
    config = Config(app, log_config=None, access_log=False)
    config.load()
    protocol = SingleWriteProtocol(config, ServerState(), app_state={})
    line = Line()
    protocol.connection_made(line)
    protocol.data_received(question)
    return line


async def test_head_and_body_are_one_write() -> None:
    app = App(b"hello", headers=[(b"content-length", b"5")])
    line = asked(app)
    await app.told.wait()
    assert line.writes[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert line.writes[0].endswith(b"\r\n\r\nhello")


async def test_head_of_a_stream_is_sent_before_its_body() -> None:
    app = App(b"", b"news")
    line = asked(app)
    await app.told.wait()
    await asyncio.sleep(0)
    assert len(line.writes) == 1
    assert line.writes[0].startswith(b"HTTP/1.1 200 OK\r\n")
    app.told.clear()
    app.go_on.set()
    await app.told.wait()
    assert b"news" in b"".join(line.writes[1:])


async def test_head_like_text_in_a_body_stays_in_place() -> None:
    result = b"HTTP/1.1 is a protocol"
    size = str(2 * len(result) + 1).encode()
    app = App(result, result, b"!", headers=[(b"content-length", size)])
    line = asked(app)
    await app.told.wait()
    await asyncio.sleep(0)
    assert b"".join(line.writes).endswith(result + result + b"!")


async def test_head_is_sent_before_the_connection_closes() -> None:
    app = App(headers=[(b"content-length", b"5")])
    line = asked(app, HEAD_ALONE)
    await app.told.wait()
    assert line.closed
    [head] = line.writes
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
