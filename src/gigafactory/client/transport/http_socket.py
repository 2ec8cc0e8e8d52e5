"""HTTP/1.1 over one socket, for the blocking client; imports far less than http.client."""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gigafactory.client.transport.headers import Unsendable, encode_head, open_socket
from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.errors import Fault, Invalid

if TYPE_CHECKING:
    from gigafactory.client.transport.proxy import HttpProxy

PORTS = {"http": 80, "https": 443}
PIECE_BYTES = 65_536
FINAL = 200
"""Responses below this status are interim ones."""


class SocketResponse:
    """The response to one request; the parser calls its `on_` methods."""

    def __init__(self, wire: socket.socket) -> None:
        """Read from this socket; nothing is read yet."""
        self._wire = wire
        self._parser = HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._begun = self._ended = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reusable = False
        """Whether the connection can be reused."""

    def read_headers(self) -> None:
        """Read as far as the end of the headers."""
        while not self._begun:
            self._receive()

    def read(self) -> bytes:
        """Read the whole body."""
        return b"".join(self._body())

    def pieces(self) -> Iterator[bytes]:
        """Stream the body."""
        return self._body()

    def lines(self) -> Iterator[str]:
        """Stream the lines of the body, without line ends."""
        rest = b""
        for piece in self._body():
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line.decode(errors="replace").removesuffix("\r") for line in whole)

    def _body(self) -> Iterator[bytes]:
        while True:
            come, self._pieces = self._pieces, []
            yield from come
            if self._ended:
                return
            self._receive()

    def _receive(self) -> None:
        piece = self._wire.recv(PIECE_BYTES)
        if not piece:
            self._close()
            return
        try:
            self._parser.feed_data(piece)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise ConnectionError(f"the response is not HTTP: {error}") from None

    def _close(self) -> None:
        """End a body of unknown length when the server closes the connection."""
        if not self._begun or self.headers.keys() & {"content-length", "transfer-encoding"}:
            raise ConnectionError("it was closed before the response was complete")
        self._ended = True

    def on_message_begin(self) -> None:
        """See httptools."""
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """See httptools."""
        self.status = self._parser.get_status_code()
        self._begun = self.status >= FINAL

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        self._ended = self._begun
        self.reusable = self._ended and self._parser.should_keep_alive()


class Connection:
    """An open connection to a server, for one request at a time."""

    def __init__(
        self, wire: socket.socket, host: str, path: str, headers: Mapping[str, str]
    ) -> None:
        """Use this socket for requests to `host` below `path`, each with these headers."""
        self._wire = wire
        self._host = host
        self._path = path
        self._headers = headers

    def send_request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        pieces: Iterable[bytes] = (),
    ) -> SocketResponse:
        """Send one request; its response must be read completely before the next.

        Pass a streamed body as `pieces`, and its length in the headers.
        Raises Invalid for a header that cannot be sent, OSError when the connection breaks.
        """
        sent = {"host": self._host, "accept-encoding": "identity", **self._headers, **headers}
        if body is not None:
            sent["content-length"] = str(len(body))
        first = _encode_head(f"{method} {self._path}{target} HTTP/1.1", sent)
        self._wire.sendall(first + (body or b""))
        for piece in pieces:
            self._wire.sendall(piece)
        answer = SocketResponse(self._wire)
        answer.read_headers()
        return answer

    def close(self) -> None:
        """Close it."""
        self._wire.close()


def connect(url: str, timeout_s: float) -> Connection:
    """Connect to the server at a URL; reads time out after `timeout_s` without data.

    Raises Unreachable when no server answers or the address is invalid.
    """
    at, host, port = _address(url)
    proxy = _proxy(at.scheme, host, port)
    headers: Mapping[str, str] = {}
    path = quote(at.path.rstrip("/"), safe="/%")
    try:
        authority = _ascii(at.netloc.rpartition("@")[2])
        peer = _ascii(proxy.host if proxy else host)
        wire = open_socket(peer, proxy.port if proxy else port, timeout_s)
        if proxy is not None and at.scheme == "https":
            _tunnel(wire, f"{_ascii(host)}:{port}", proxy.headers)
        elif proxy is not None:
            path, headers = f"http://{authority}{path}", proxy.headers
        if at.scheme == "https":
            wire = _start_tls(wire, host)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        through = f" through the proxy {proxy.host}:{proxy.port}" if proxy else ""
        raise Unreachable(f"cannot reach {url}{through}: {reason}") from None
    return Connection(wire, authority, path, headers)


def _proxy(scheme: str, host: str, port: int) -> "HttpProxy | None":
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from gigafactory.client.transport.proxy import proxy_for

    return proxy_for(scheme, host, port, os.environ)


def _tunnel(wire: socket.socket, authority: str, headers: Mapping[str, str]) -> None:
    """Open a tunnel to a server through a proxy."""
    request = _encode_head(f"CONNECT {authority} HTTP/1.1", {"host": authority, **headers})
    try:
        wire.sendall(request)
        answer = _read_status_line(wire)
    except OSError:
        wire.close()
        raise
    if answer.split(maxsplit=2)[1:2] != ["200"]:
        wire.close()
        raise ConnectionError(f"the proxy answered {answer or 'nothing'!r}")


def _read_status_line(wire: socket.socket) -> str:
    # Byte by byte: what follows the head belongs to the tunnel.
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < PIECE_BYTES and (piece := wire.recv(1)):
        head += piece
    return head.partition(b"\r\n")[0].decode(errors="replace")


def _address(url: str) -> tuple[SplitResult, str, int]:
    try:
        at = urlsplit(url)
        port = at.port or PORTS.get(at.scheme, 0)
    except ValueError:
        at, port = SplitResult("", "", "", "", ""), 0
    if not at.hostname or at.scheme not in PORTS:
        raise Unreachable(f"cannot reach {url}: expected http://HOST:PORT or https://HOST")
    return at, at.hostname, port


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode()


def _start_tls(wire: socket.socket, host: str) -> socket.socket:
    from gigafactory.system.tls import tls_context

    try:
        return tls_context().wrap_socket(wire, server_hostname=host)
    except OSError:
        wire.close()
        raise


def _encode_head(line: str, headers: Mapping[str, str]) -> bytes:
    try:
        return encode_head(line, headers)
    except Unsendable as wrong:
        raise Invalid("the request", [Fault(wrong.name, wrong.why)]) from None
