"""A server that sends the same raw response to every request."""

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread

WITHIN_S = 30.0


@dataclass(frozen=True)
class Answering:
    """A running server and the requests that it received."""

    url: str
    asked: SimpleQueue[str]

    def heard(self) -> list[str]:
        """Return the heads of the requests received since the last call."""
        return [self.asked.get() for _ in range(self.asked.qsize())]

    def next(self) -> str:
        """Wait for the next request and return its head."""
        return self.asked.get(timeout=WITHIN_S)


@contextmanager
def answering(answer: bytes, *, held: bool = False) -> Iterator[Answering]:
    """Run a server that sends `answer` and closes; with `held`, it never responds."""
    asked: SimpleQueue[str] = SimpleQueue()
    over = Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = ""
            while not head.endswith("\r\n\r\n"):
                line = self.rfile.readline().decode()
                if not line:  # the client closed the connection early
                    return
                head += line
            asked.put(head)
            if held:
                over.wait(WITHIN_S)
            else:
                self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Answering(f"http://127.0.0.1:{server.server_address[1]}", asked)
        finally:
            over.set()
            server.shutdown()
            thread.join()


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return a complete HTTP response with a JSON body."""
    result = ("content-type: application/json", f"content-length: {len(body)}", *headers)
    return "\r\n".join((f"HTTP/1.1 {status}", *result, "", "")).encode() + body
