"""A server that says the same to everybody, byte by byte as told."""

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread

WITHIN_S = 30.0


@dataclass(frozen=True)
class Answering:
    """One that is up, and what it was asked."""

    url: str
    asked: SimpleQueue[str]

    def heard(self) -> list[str]:
        """The heads of the requests since the last time."""
        return [self.asked.get() for _ in range(self.asked.qsize())]

    def next(self) -> str:
        """The head of the next request, as soon as it is there."""
        return self.asked.get(timeout=WITHIN_S)


@contextmanager
def answering(answer: bytes, *, held: bool = False) -> Iterator[Answering]:
    """Give every request this answer and close; `held` back, it never comes."""
    asked: SimpleQueue[str] = SimpleQueue()
    over = Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = ""
            while not head.endswith("\r\n\r\n"):
                line = self.rfile.readline().decode()
                if not line:  # they have left without a word
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
    """A whole answer in JSON."""
    told = ("content-type: application/json", f"content-length: {len(body)}", *headers)
    return "\r\n".join((f"HTTP/1.1 {status}", *told, "", "")).encode() + body
