"""A real coordinator process with enrolled factories, for measuring."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from wire import Wire, wire

AQ = str(Path(sys.executable).with_name("aq"))
API = "/api/fleet"
MANIFEST = {"engine": "command", "verify": "true"}


@dataclass(frozen=True)
class Served:
    """A coordinator that is up."""

    url: str
    token: str
    pid: int


@contextmanager
def serving(store: str | None = None, *, data: Path | None = None) -> Iterator[Served]:
    """Run `aq serve` in a process of its own, on the embedded store or the one at this address."""
    with tempfile.TemporaryDirectory() as made:
        folder = data or Path(made)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("AQ_")}
        environ |= {"HOME": str(folder), "AQ_DATA": str(folder), "AQ_LOG_LEVEL": "warning"}
        environ |= {"AQ_LIMITS_REQUESTS_PER_SECOND": "1000000", "AQ_LIMITS_BURST": "1000000"}
        if store is not None:
            environ["AQ_STORE"] = store
        with subprocess.Popen(
            [AQ, "serve", "--json", "--port", "0"], env=environ, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                ready = json.loads(process.stdout.readline())
                token = Path(ready["tokenFile"]).read_text().strip()
                yield Served(ready["url"], token, process.pid)
            finally:
                process.terminate()
                process.wait(20)


@asynccontextmanager
async def factories(
    served: Served, count: int, *, slots: int, prefix: str = "f"
) -> AsyncIterator[dict[str, Wire]]:
    """Enroll so many factories, each with its own connection, and have them say what they have."""
    made: dict[str, Wire] = {}
    async with wire(served.url, served.token) as admin:
        for number in range(count):
            secret = await admin.call("POST", f"{API}/enrollments", {"products": ["*"]})
            name = f"{prefix}{number}"
            member = await admin.call(
                "POST", f"{API}/factories/enroll", {"secret": secret["secret"], "factoryId": name}
            )
            made[name] = Wire(served.url, member["token"])
    await asyncio.gather(*(beat(one, name, slots) for name, one in made.items()))
    try:
        yield made
    finally:
        for one in made.values():
            one.close()


async def beat(connection: Wire, name: str, slots: int) -> None:
    """One heartbeat of a factory with so many seats of the engine `command`."""
    told = {
        "factoryId": name,
        "instanceId": "bench",
        "capabilities": ["os:linux"],
        "engines": {"command": {"version": "1", "seats": slots}},
        "slots": slots,
        "running": [],
    }
    await connection.call("POST", f"{API}/factories/heartbeat", told)
