"""Time for an event to reach many listeners, compared with a bare server of the same framework."""

import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import msgspec
from fleet import API, a_job, serving
from harness import Harness
from table import Section, ms, percentile, verdict

SAMPLES = 30
BARE = Path(__file__).with_name("bare_server.py")
EVENT = b"event: submitted"


def sections(harness: Harness) -> list[Section]:
    """Measure both servers with the same listeners."""
    count = 1_000 // harness.scale
    with serving() as served:
        head = f"authorization: Bearer {served.token}\r\nx-product-id: bench\r\n"
        with _listening(served.url, f"{API}/events/stream", head, count) as audience:
            ours = audience.waits(lambda n: _post(f"{API}/jobs", head, _submission(n)))
            frame = audience.frame
    with bare_server() as url, _listening(url, "/stream", "", count) as audience:
        bare = audience.waits(lambda _: _post("/push", "", frame))
    ratio = ours / bare
    rows = [
        (
            f"submit sent → event received by {count:,} listeners, p99",
            ms(ours),
            f"{ratio:.1f} × the bare server",
            verdict(met=ratio <= 3, goal="≤ 3 ×"),
        ),
        (
            f"bare server: push of {len(frame)} bytes sent → received by {count:,} listeners, p99",
            ms(bare),
            "",
            "",
        ),
    ]
    note = (
        "The bare server is a minimal Litestar application with the same uvicorn settings. One"
        " client loop reads both over\nplain sockets; figures are the medians of the p99 of"
        f" {SAMPLES} events. Gigafactory also commits the job before it sends the event."
    )
    return [Section("Events", rows, note)]


def _submission(number: int) -> bytes:
    return msgspec.json.encode(a_job(f"event-{time.monotonic_ns()}-{number}"))


def _post(path: str, head: str, body: bytes) -> bytes:
    fields = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}{fields}\r\n".encode() + body


class Audience:
    """Many sockets that listen in one loop with minimal work per socket."""

    def __init__(self, speaker: socket.socket, listeners: list[socket.socket]) -> None:
        self._speaker = speaker
        self._listeners = listeners
        self.frame = b""

    def waits(self, request: Callable[[int], bytes]) -> float:
        """Return the median p99 of many events; the first is a warm-up."""
        with selectors.DefaultSelector() as selector:
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ)
            spent = [self._one(selector, request(number)) for number in range(SAMPLES + 1)]
        return median(spent[1:])

    def _one(self, selector: selectors.BaseSelector, request: bytes) -> float:
        arrived: list[float] = []
        begun = time.perf_counter()
        self._speaker.sendall(request)
        while len(arrived) < len(self._listeners):
            ready = selector.select(timeout=30)
            assert ready, f"{len(arrived)} of {len(self._listeners)} received the event"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                piece = key.fileobj.recv(1 << 16)
                if EVENT in piece:
                    arrived.append(time.perf_counter() - begun)
        self._speaker.recv(1 << 16)
        # In chunked encoding, a line with the size comes before a piece and an empty line after it.
        self.frame = piece.partition(b"\r\n")[2].removesuffix(b"\r\n")
        return percentile(arrived, 0.99)


@contextmanager
def _listening(url: str, path: str, head: str, count: int) -> Iterator[Audience]:
    place = (urlsplit(url).hostname, urlsplit(url).port)
    request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}\r\n".encode()
    with ExitStack() as stack:
        speaker, *listeners = (
            stack.enter_context(socket.create_connection(place)) for _ in range(count + 1)
        )
        for listener in listeners:
            listener.sendall(request)
        for listener in listeners:
            answer = listener.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200"), answer
        yield Audience(speaker, listeners)


@contextmanager
def bare_server() -> Iterator[str]:
    """Run the bare server and yield its address."""
    with subprocess.Popen([sys.executable, BARE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(20)
