"""A worker in a separate process: runs one job and prints JSON lines about it.

It renews its lease until that is refused, and then still tries to log, report and release.
"""

import asyncio
import json
import os
import sys
from typing import TypeVar

import msgspec

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.errors import Refused
from gigafactory.wire.fleet import HeartbeatDoc
from gigafactory.wire.jobs import JobView
from gigafactory.wire.workers import GrantView, ReleaseDoc

T = TypeVar("T")

RENEW_EVERY_S = 0.5


def print_line(what: str, **more: object) -> None:
    """Print one line for the parent process."""
    sys.stdout.write(json.dumps({"what": what, **more}) + "\n")
    sys.stdout.flush()


async def attempt(client: AsyncClient, what: str, call: ApiCall[T]) -> bool:
    """Send a request and print its outcome."""
    try:
        await client.send(call)
    except Refused as refused:
        print_line(what, code=refused.code)
        return False
    print_line(what, code=None)
    return True


async def claim(client: AsyncClient, factory_id: str) -> GrantView:
    """Claim until there is a grant."""
    while True:
        grant = await client.send(
            workers.claim(factory_id, instance_id=f"{factory_id}-a", wait_s=5)
        )
        if grant is not None:
            return grant


async def renew_until_refused(client: AsyncClient, job: str, epoch: int) -> None:
    """Renew the lease until that is refused."""
    while True:
        if not await attempt(client, "renew", workers.renew(job, epoch)):
            return
        await asyncio.sleep(RENEW_EVERY_S)


async def main(url: str, token: str, factory_id: str) -> None:
    """Run a job until it is fenced."""
    async with AsyncClient(url, token) as client:
        description = HeartbeatDoc(
            factory_id=factory_id,
            instance_id=f"{factory_id}-a",
            capabilities=("os:mac",),
            seats={"claude": 1},
            slots=1,
        )
        await client.send(workers.heartbeat(description))
        grant = await claim(client, factory_id)
        job, epoch = grant.job.id, grant.lease_epoch
        await client.send(workers.report(job, epoch, {"stage": "building"}))
        await client.send(workers.log_chunk(job, epoch, 0, b"in time\n"))
        print_line("building", job=job, epoch=epoch)
        await renew_until_refused(client, job, epoch)
        await attempt(client, "log", workers.log_chunk(job, epoch, 8, b"too late\n"))
        await attempt(client, "report", workers.report(job, epoch, {"stage": "review"}))
        release = ApiCall(
            method="POST",
            path=path("jobs", job, "lease", "release"),
            response_type=JobView,
            body=msgspec.json.encode(ReleaseDoc(lease_epoch=epoch, reason="gone")),
        )
        await attempt(client, "release", release)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ["TOKEN"], sys.argv[2]))
