"""The socket of the sync client: every framing of a response, and every way it can fail."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gigafactory.client.transport.http_socket import connect
from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.errors import Invalid

TIMEOUT_S = 20.0
SHORT_S = 0.05


class Answering:
    """A server with raw responses by connection; each request gets the next one."""

    def __init__(self, *connections: tuple[bytes, ...]) -> None:
        self.heard: list[bytes] = []
        self._connections = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator["Answering"]:
        with self._listener:
            self._thread.start()
            try:
                yield self
            finally:
                self._thread.join()

    def _run(self) -> None:
        for answers in self._connections:
            wire, _ = self._listener.accept()
            with wire:
                for answer in answers:
                    self.heard.append(self._request(wire))
                    wire.sendall(answer)

    def _request(self, wire: socket.socket) -> bytes:
        come = b""
        while b"\r\n\r\n" not in come:
            piece = wire.recv(1)
            assert piece, "the client left in the middle of its request"
            come += piece
        return come


def body_of(answer: bytes) -> bytes:
    """Serve this response, close the connection and return the body that the client read."""
    with Answering((answer,)).running() as server:
        connection = connect(server.url, TIMEOUT_S)
        try:
            return connection.send_request("GET", "/x", None, {}).read()
        finally:
            connection.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        CHUNKED + b"2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello",
        HINTS + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["length", "chunks", "until closed", "old", "after hints"],
)
def test_body_is_read_whole_for_every_framing(answer: bytes) -> None:
    assert body_of(answer) == b"hello"


def test_response_without_a_body_is_empty() -> None:
    assert body_of(b"HTTP/1.1 204 No Content\r\n\r\n") == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=["nothing", "half a header", "too short", "no last chunk", "only a prelude"],
)
def test_incomplete_response_raises_connection_error(answer: bytes) -> None:
    with pytest.raises(ConnectionError, match="closed before the response was complete"):
        body_of(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        CHUNKED + b"xyz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
    ids=["another protocol", "two lengths", "no chunk", "upgrade"],
)
def test_malformed_http_raises_connection_error(answer: bytes) -> None:
    with pytest.raises(ConnectionError, match="not HTTP"):
        body_of(answer)


def test_stream_yields_lines_as_soon_as_they_are_complete() -> None:
    chunks = b"4\r\na\r\nb\r\n5\r\nc\nd\xc3\xa9\r\n1\r\n\n\r\n0\r\n\r\n"
    with Answering((CHUNKED + chunks,)).running() as server:
        connection = connect(server.url, TIMEOUT_S)
        assert list(connection.send_request("GET", "/x", None, {}).lines()) == ["a", "bc", "dé"]
        connection.close()


def test_one_connection_carries_several_requests() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    with Answering((answer, last)).running() as server:
        connection = connect(server.url, TIMEOUT_S)
        items = []
        for _ in range(2):
            come = connection.send_request("POST", "/x", b"", {"x-product-id": "notes"})
            items.append((come.read(), come.reusable))
        connection.close()
    assert items == [(b"ok", True), (b"ok", False)]
    assert b"content-length: 0\r\n" in server.heard[0]
    assert b"x-product-id: notes\r\n" in server.heard[0]


def test_path_prefix_of_the_url_is_kept_and_host_is_sent() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with Answering((answer,)).running() as server:
        connection = connect(f"{server.url.replace('//', '//me@')}/the fleet/", TIMEOUT_S)
        connection.send_request("GET", "/x?a=b", None, {})
        connection.close()
    assert server.heard[0].startswith(b"GET /the%20fleet/x?a=b HTTP/1.1\r\n")
    assert f"host: {server.url.removeprefix('http://')}\r\n".encode() in server.heard[0]


@pytest.mark.parametrize("value", ["a\r\nx-role: admin", "caf\u00e9", "a\x00"])
def test_header_injection_is_rejected(value: str) -> None:
    with Answering(()).running() as server:
        connection = connect(server.url, TIMEOUT_S)
        with pytest.raises(Invalid) as refused:
            connection.send_request("GET", "/x", None, {"x-product-id": value})
        connection.close()
    assert [fault.field for fault in refused.value.faults] == ["x-product-id"]
    assert server.heard == []


def test_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        connection = connect(f"http://127.0.0.1:{mute.getsockname()[1]}", SHORT_S)
        with pytest.raises(TimeoutError):
            connection.send_request("GET", "/x", None, {})
        connection.close()


@pytest.mark.parametrize(
    "url", ["", "fleet.test", "ftp://fleet.test", "http://", "http://fleet.test:x", "http://[::1"]
)
def test_invalid_url_names_the_expected_form(url: str) -> None:
    with pytest.raises(Unreachable, match="expected http://HOST:PORT"):
        connect(url, TIMEOUT_S)


def test_https_url_never_sends_plain_text() -> None:
    heard = []

    def listen(listener: socket.socket) -> None:
        wire, _ = listener.accept()
        with wire:
            heard.append(wire.recv(3))
            wire.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen, args=(listener,))
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"cannot reach {url}"):
            connect(url, TIMEOUT_S)
        thread.join()
    # The client must start with a TLS handshake record, version 3.x.
    assert heard[0][:2] == b"\x16\x03"


def test_http_proxy_receives_the_absolute_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering((b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",)).running() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        connection = connect("http://fleet.example:8790/below", TIMEOUT_S)
        assert connection.send_request("GET", "/x", None, {}).read() == b"ok"
        connection.close()
    assert proxy.heard[0].startswith(b"GET http://fleet.example:8790/below/x HTTP/1.1\r\n")


def test_proxy_that_refuses_a_tunnel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering((b"HTTP/1.1 403 Forbidden\r\n\r\n",)).running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(Unreachable, match=r"through the proxy 127\.0\.0\.1.*403 Forbidden"):
            connect("https://fleet.example", TIMEOUT_S)
    assert proxy.heard[0].startswith(b"CONNECT fleet.example:443 HTTP/1.1\r\n")
