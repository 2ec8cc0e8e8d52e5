"""Coordinator processes with enrolled factories for the benchmarks."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wire import Wire, wire

AQ = str(Path(sys.executable).with_name("aq"))
API = "/api/fleet"
MANIFEST = {"engine": "command", "verify": "true"}
ENROLLED_AT_ONCE = 16


@dataclass(frozen=True)
class Served:
    """A running coordinator."""

    url: str
    token: str
    pid: int


def environment(folder: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process with this data folder."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("AQ_")}
    # Users have cached byte code. Without it, every start would compile all modules, and the
    # benchmark would measure the compiler.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ |= {"HOME": str(folder), "AQ_DATA": str(folder), "AQ_LOG_LEVEL": "warning"}
    environ |= {"AQ_LIMITS_REQUESTS_PER_SECOND": "1000000", "AQ_LIMITS_BURST": "1000000"}
    return environ | dict(settings or {})


@contextmanager
def serving(
    store: str | None = None,
    *,
    data: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Run `aq serve` as a process, on the embedded store or the one at this address."""
    with tempfile.TemporaryDirectory() as made:
        folder = data or Path(made)
        environ = environment(folder, settings)
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


@contextmanager
def serving_together(*stores: str | None) -> Iterator[list[Served]]:
    """Run several coordinators, one per address, that share the tokens of the first."""
    with ExitStack() as stack:
        made = [stack.enter_context(serving(store)) for store in stores]
        yield [replace(one, token=made[0].token) for one in made]


@asynccontextmanager
async def factories(
    served: Served, count: int, *, slots: int, prefix: str = "f"
) -> AsyncIterator[dict[str, Wire]]:
    """Enroll `count` factories, each with a connection, and send a first heartbeat of each."""
    made: dict[str, Wire] = {}
    names = iter([f"{prefix}{number}" for number in range(count)])
    await asyncio.gather(*(_enroll(served, names, made) for _ in range(ENROLLED_AT_ONCE)))
    await asyncio.gather(*(beat(one, name, slots) for name, one in made.items()))
    try:
        yield made
    finally:
        for one in made.values():
            one.close()


async def _enroll(served: Served, names: Iterator[str], made: dict[str, Wire]) -> None:
    async with wire(served.url, served.token) as admin:
        for name in names:
            invited = await admin.call("POST", f"{API}/enrollments", {"products": ["*"]})
            asked = {"secret": invited["secret"], "factoryId": name}
            member = await admin.call("POST", f"{API}/factories/enroll", asked)
            made[name] = Wire(served.url, member["token"])


async def beat(connection: Wire, name: str, slots: int) -> dict[str, Any]:
    """Send the heartbeat of a factory with these seats of engine `command`; return the reply."""
    sent = {
        "factoryId": name,
        "instanceId": "bench",
        "capabilities": ["os:linux"],
        "engines": {"command": {"version": "1", "seats": slots}},
        "slots": slots,
        "running": [],
    }
    reply: dict[str, Any] = await connection.call("POST", f"{API}/factories/heartbeat", sent)
    return reply


def a_job(name: str, **more: object) -> dict[str, object]:
    """Return the request body of a no-op job."""
    return {"manifest": {**MANIFEST, "name": name}, "body": "true\n", **more}
