"""A server without free file descriptors logs that, and accepts connections again later."""

import http.client
import re
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from gigafactory.server.connections import limits_within

FILES = 64
SERVER = f"""
import asyncio, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
import uvloop
from litestar import Litestar, get
from gigafactory.server.connections import ConnectionLimits
from gigafactory.server.http_server import HttpServer

@get("/")
async def hello() -> str:
    return "hello"

async def main() -> None:
    limits = ConnectionLimits(connections=1000, per_address=1000)
    server = HttpServer(Litestar([hello], openapi_config=None), limits=limits)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1000)
        print(listener.getsockname()[1], flush=True)
        await server.serve(sockets=[listener])

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_running_out_of_files_is_logged_and_survived() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with ExitStack() as held:
            for _ in range(FILES + 10):
                held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            lines = iter(server.stdout.readline, "")
            said = next(line for line in lines if "cannot accept connections" in line)
            assert "Too many open files" in said
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == http.HTTPStatus.OK
        connection.close()
        server.terminate()
        rest = server.stdout.read()
    assert len(re.findall("cannot accept", rest)) < FILES


@pytest.mark.parametrize(("files", "connections"), [(256, 128), (1024, 768), (20_000, 18_976)])
def test_files_are_left_for_other_things(files: int, connections: int) -> None:
    limits = limits_within(files)
    assert limits.connections == connections
    assert limits.per_address <= limits.connections // 2
