"""Receivers of notifications on loopback: an HTTP server and an SMTP server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Receiver:
    """An HTTP server that records messages in order; `status` is its response status."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.location = ""
        self.heard: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """The address in apprise format."""
        return f"json://127.0.0.1:{self.port}/"

    @property
    def titles(self) -> list[str]:
        """The titles of the messages."""
        return [result["title"] for result in self.heard]


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    """Run an HTTP receiver until the block ends."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.heard.append(json.loads(body))
            self.send_response(receiver.status)
            if receiver.location:
                self.send_header("location", receiver.location)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            serving.join()


class Mailbox:
    """An SMTP server that records emails as they were sent."""

    def __init__(self) -> None:
        self.port = 0
        self.letters: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive emails with a minimal subset of SMTP."""
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).strip().upper():
            if line.startswith(b"DATA"):
                writer.write(b"354 go on\r\n")
                self.letters.append((await reader.readuntil(b"\r\n.\r\n")).decode())
            writer.write(b"221 bye\r\n" if line.startswith(b"QUIT") else b"250 ok\r\n")
        writer.close()


@asynccontextmanager
async def a_mailbox() -> AsyncIterator[Mailbox]:
    """Run an SMTP server until the block ends."""
    box = Mailbox()
    server = await asyncio.start_server(box.serve, "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    async with server:
        yield box
