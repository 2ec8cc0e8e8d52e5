"""The server of the scripted model: each request determines its turn, so retries work."""

import gzip
import json
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Lock, Thread
from typing import Any, cast

from tests.services.fake_model import anthropic, chat, gemini, responses
from tests.services.fake_model.conversation import Ask, Dialect, Json, reply
from tests.services.fake_model.scenarios import SCENARIOS, Refusal, Scenario, Turn

PREFIX = re.compile(r"/s/(?P<scenario>[^/@]+)(?:@(?P<run>[^/]*))?(?P<path>/[^?]*)")
ROUTES: tuple[tuple[re.Pattern[str], Dialect], ...] = (
    (re.compile(r"/messages$"), anthropic),
    (re.compile(r"/responses$"), responses),
    (re.compile(r"/chat/completions$"), chat),
    (re.compile(r":(?:stream)?[gG]enerateContent$"), gemini),
)
COUNTING = re.compile(r"(?:/count_tokens|:countTokens)$")
CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
ERRAND = Turn(text="Scripted task")
"""The reply to a request without tools, such as for a title or a summary."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that the model received."""

    scenario: str
    run: str
    path: str
    dialect: str
    model: str
    stream: bool
    turn: int
    """The index of its turn in the scenario."""
    errand: bool
    """Whether it was a side request of the agent, which does not count as a turn."""
    refused: bool
    credentials: tuple[str, ...]
    """The names of the headers that carried credentials."""
    tools: tuple[str, ...]
    system: str
    prompt: str
    """The last message of the user."""
    body: Json


class FakeModel:
    """The scripted model on loopback; it records all requests."""

    def __init__(self, port: int, scenarios: Mapping[str, Scenario]) -> None:
        self._port = port
        self._scenarios = scenarios
        self._asked: list[Request] = []
        self._refusals: Counter[tuple[str, str, int]] = Counter()
        self._news = Condition()

    def url(self, scenario: str, run: str = "") -> str:
        """Return the URL of a scenario; each run counts its refusals separately.

        Raises KeyError when there is no such scenario.
        """
        self._scenarios[scenario]
        return f"http://127.0.0.1:{self._port}/s/{scenario}{f'@{run}' if run else ''}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests so far, side requests included."""
        with self._news:
            return tuple(self._asked)

    def wait(self, look: Callable[[Request], bool], *, within_s: float = 60.0) -> Request:
        """Wait for a request that matches and return the first one.

        Raises TimeoutError when that takes too long.
        """
        with self._news:
            self._news.wait_for(lambda: any(map(look, self._asked)), within_s)
            for asked in self._asked:
                if look(asked):
                    return asked
        raise TimeoutError(f"the model was not asked that in {within_s} s")

    def hear(self, request: Request, turn: Turn) -> Refusal | None:
        """Record a request and return its refusal, or None if it succeeds."""
        with self._news:
            refusal = turn.refusal
            if refusal is not None:
                key = (request.scenario, request.run, request.turn)
                self._refusals[key] += 1
                if refusal.times is not None and self._refusals[key] > refusal.times:
                    refusal = None
            asked = {**vars(request), "refused": refusal is not None}
            self._asked.append(Request(**asked))
            self._news.notify_all()
            return refusal

    def scenario(self, name: str) -> Scenario | None:
        """Return the scenario with this name, or None."""
        return self._scenarios.get(name)


class _Server(ThreadingHTTPServer):
    """An HTTP server with one thread per connection; all threads end with the server."""

    daemon_threads = False

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = FakeModel(self.server_port, scenarios)
        self._connections: set[socket.socket] = set()
        self._lock = Lock()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the library
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as in the library
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the library
        """Ignore disconnects, which are normal for agents; report any other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Close all connections, including those that wait for a response."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the library
        """Log nothing, since the model records all requests."""

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._send(200, {"object": "list", "data": [], "models": []})
        else:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        raw = self._body()
        place = PREFIX.match(self.path)
        model = cast("_Server", self.server).model
        scenario = model.scenario(place["scenario"]) if place else None
        if place is None or scenario is None:
            self._send(404, {"error": {"message": f"no such scenario: {self.path}"}})
            return
        if COUNTING.search(place["path"]):
            self._send(200, {"input_tokens": len(raw) // 4, "totalTokens": len(raw) // 4})
            return
        for pattern, dialect in ROUTES:
            if pattern.search(place["path"]):
                self._answer(model, scenario, dialect, place, raw)
                return
        self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def _answer(
        self,
        model: FakeModel,
        scenario: Scenario,
        dialect: Dialect,
        place: re.Match[str],
        raw: bytes,
    ) -> None:
        body = json.loads(raw)
        ask = dialect.ask(place["path"], body)
        errand = not ask.tools and not scenario.toolless
        turn = ERRAND if errand else scenario.due(ask.turn(scenario))
        refusal = model.hear(
            Request(
                scenario=place["scenario"],
                run=place["run"] or "",
                path=place["path"],
                dialect=dialect.NAME,
                model=ask.model,
                stream=ask.stream,
                turn=ask.turn(scenario),
                errand=errand,
                refused=False,
                credentials=tuple(name for name in CREDENTIALS if name in self.headers),
                tools=tuple(ask.tools),
                system=ask.system,
                prompt=ask.prompt,
                body=body,
            ),
            turn,
        )
        if turn.hangs:
            self._wait_until_they_hang_up()
        elif refusal is not None:
            self._send(*dialect.refuse(refusal), headers=refusal.headers)
        else:
            self._say(dialect, ask, turn, raw)

    def _say(self, dialect: Dialect, ask: Ask, turn: Turn, raw: bytes) -> None:
        answer = reply(ask, turn, raw.decode().replace("\\n", "\n"))
        if not ask.stream:
            self._send(200, dialect.whole(answer))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, carried in dialect.events(answer):
            text = carried if isinstance(carried, str) else json.dumps(carried)
            named = f"event: {name}\n" if name else ""
            self.wfile.write(f"{named}data: {text}\n\n".encode())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b"".join(self._chunks())
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(_dated(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _dated(dict(headers or {})).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _wait_until_they_hang_up(self) -> None:
        self.close_connection = True
        while self.connection.recv(1024):
            pass


def _dated(fields: Json) -> Json:
    """Return the fields with `+seconds` values replaced by Unix times."""
    dated: Json = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            dated[name] = _dated(value)
        elif isinstance(value, str) and re.fullmatch(r"\+\d+", value):
            dated[name] = int(time.time()) + int(value)
        else:
            dated[name] = value
    return dated


@contextmanager
def fake_model(scenarios: Mapping[str, Scenario] = SCENARIOS) -> Iterator[FakeModel]:
    """Run a scripted model on a free loopback port until the block ends."""
    with _Server(scenarios) as server:
        serving = Thread(target=server.serve_forever, args=(0.05,), name="fake model")
        serving.start()
        try:
            yield server.model
        finally:
            server.shutdown()
            server.hang_up()
            serving.join()
