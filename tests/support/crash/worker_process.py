"""A worker as a process of its own: runs one job, and says in JSON lines how it goes.

Told by its signals alone: it renews its lease until it is refused, and then tries to speak on.
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


def say(what: str, **more: object) -> None:
    """Print one line for the parent process."""
    sys.stdout.write(json.dumps({"what": what, **more}) + "\n")
    sys.stdout.flush()


async def attempt(client: AsyncClient, what: str, call: ApiCall[T]) -> bool:
    """Ask, and say what came of it."""
    try:
        await client.send(call)
    except Refused as refused:
        say(what, code=refused.code)
        return False
    say(what, code=None)
    return True


async def claimed(client: AsyncClient, me: str) -> GrantView:
    """The job that there is for this factory."""
    while True:
        grant = await client.send(workers.claim(me, instance_id=f"{me}-a", wait_s=5))
        if grant is not None:
            return grant


async def keep(client: AsyncClient, job: str, epoch: int) -> None:
    """Renew the lease until that is refused."""
    while True:
        if not await attempt(client, "renew", workers.renew(job, epoch)):
            return
        await asyncio.sleep(RENEW_EVERY_S)


async def main(url: str, token: str, me: str) -> None:
    """Work until it is fenced."""
    async with AsyncClient(url, token) as client:
        state = HeartbeatDoc(
            factory_id=me,
            instance_id=f"{me}-a",
            capabilities=("os:mac",),
            seats={"claude": 1},
            slots=1,
        )
        await client.send(workers.heartbeat(state))
        grant = await claimed(client, me)
        job, epoch = grant.job.id, grant.lease_epoch
        await client.send(workers.report(job, epoch, {"stage": "building"}))
        await client.send(workers.log_chunk(job, epoch, 0, b"in time\n"))
        say("building", job=job, epoch=epoch)
        await keep(client, job, epoch)
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
