"""Carries reports from the outbox to the coordinator: in order, each once, whatever is away."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from gigafactory.client.answers import Job
from gigafactory.client.asynchronous import AsyncClient
from gigafactory.client.call import Call, path
from gigafactory.domain.errors import Fenced, Refused, TooMany, Unauthenticated, Unavailable
from gigafactory.factory.outbox import Letter, Outbox

PAUSE_MIN_S = 0.5
PAUSE_MAX_S = 15.0

log = structlog.get_logger()

FencedOff = Callable[[str, int], None]


class Courier:
    """Delivers letters one after the other; what a fence refuses is for `fenced` to deal with."""

    def __init__(
        self,
        outbox: Outbox,
        client: AsyncClient,
        fenced: FencedOff,
        aside: Callable[[str, int], Path],
    ) -> None:
        """Carry from this outbox; what is fenced is kept in the folder that `aside` names."""
        self._outbox = outbox
        self._client = client
        self._fenced = fenced
        self._aside = aside
        self._letters = asyncio.Event()
        self._delivered = asyncio.Condition()

    def send(self, job_id: str, epoch: int, told: dict[str, Any], *, last: bool = False) -> None:
        """Keep a report, and deliver it as soon as that can be done."""
        self._outbox.put(job_id, epoch, told, last=last)
        self._letters.set()

    async def run(self) -> None:
        """Deliver for ever."""
        pause = PAUSE_MIN_S
        while True:
            self._letters.clear()
            try:
                await self._round()
            except (Unavailable, TooMany, Unauthenticated) as away:
                log.warning("reports wait", reason=away.detail, waiting=len(self._outbox.waiting()))
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MAX_S)
                continue
            pause = PAUSE_MIN_S
            await self._letters.wait()

    async def replay(self) -> None:
        """Deliver what an earlier start has left, before anybody hears of a new one.

        Raises Unavailable, TooMany, Unauthenticated.
        """
        await self._round()

    async def _round(self) -> None:
        for place in self._outbox.waiting():
            await self._deliver(place)
            async with self._delivered:
                self._delivered.notify_all()

    async def _deliver(self, place: Path) -> None:
        letter = self._outbox.read(place)
        try:
            await self._client.send(_call(letter))
        except (Unavailable, TooMany, Unauthenticated):
            raise
        except Fenced:
            self._fenced(letter.job_id, letter.epoch)
            self._outbox.put_aside(place, self._aside(letter.job_id, letter.epoch))
            return
        except Refused as refused:
            # Sent again it would be refused again; the lease will run out, and tell the rest.
            log.warning(
                "report refused", job=letter.job_id, told=letter.told, reason=refused.detail
            )
        self._outbox.done(place)

    async def empty(self) -> None:
        """Come back when everything has been delivered."""
        async with self._delivered:
            await self._delivered.wait_for(lambda: not self._outbox.waiting())


def _call(letter: Letter) -> Call[Job]:
    body = msgspec.json.encode({"leaseEpoch": letter.epoch, **letter.told})
    where = path("jobs", letter.job_id)
    return Call(method="PATCH", path=where, answer=Job, body=body, key=letter.key)
