"""A minimal Litestar server: one page, and a stream that repeats what is posted to `/push`."""

import asyncio
import socket
from collections.abc import AsyncIterator

import uvloop
from litestar import Litestar, Request, get, post
from litestar.response import Stream

from gigafactory.server.http_server import BACKLOG, HttpServer
from gigafactory.server.server import tune_garbage_collection

listeners: list[asyncio.Queue[bytes]] = []


@get("/stream")
async def stream() -> Stream:
    """Stream every body that is posted from now on."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    listeners.append(queue)
    return Stream(_pieces(queue), media_type="text/event-stream")


async def _pieces(queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await queue.get()


@get("/hello", media_type="text/html")
async def hello() -> str:
    """Return a static page."""
    return "<!doctype html><title>hello</title><p>hello"


@post("/push")
async def push(request: Request) -> None:  # type: ignore[type-arg]
    """Send the body to all listeners."""
    piece = await request.body()
    for listener in listeners:
        listener.put_nowait(piece)


async def main() -> None:
    """Serve on a free port, with the uvicorn settings of the coordinator."""
    tune_garbage_collection()
    app = Litestar([stream, push, hello], openapi_config=None, logging_config=None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await HttpServer(app).serve(sockets=[listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
