"""Followers of event streams that lose their connection and resume at their position."""

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Event
from tests.simulation.network import Network


@dataclass
class Follower:
    """A follower of all events or of one job that remembers its last position."""

    secret: str
    network: Network
    rng: random.Random
    job_id: str | None = None
    seen: list[Event] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Return the position to resume from: in the job's events or in all events."""
        if not self.seen:
            return 0
        return self.seen[-1].position if self.job_id is None else self.seen[-1].seq

    async def follow(self) -> None:
        """Follow forever, over as many connections as necessary."""
        while True:
            node = self.network.node()
            if node.coordinator is not None:
                inbox: asyncio.Queue[Event | None] = asyncio.Queue()
                serving = node.serve(self._serve(node.coordinator, inbox, self.last))
                serving.add_done_callback(partial(_close_inbox, inbox))
                try:
                    await self._watch(inbox)
                finally:
                    serving.cancel()
            await asyncio.sleep(self.rng.uniform(0.1, 2.0))

    async def _serve(
        self, coordinator: Coordinator, inbox: "asyncio.Queue[Event | None]", after: int
    ) -> None:
        """Serve the coordinator's end of the stream."""
        try:
            caller = await coordinator.tokens.caller(self.secret, product=None)
            if self.job_id is None:
                batches = await coordinator.event_streams.follow_product(caller, after=after)
            else:
                batches = await coordinator.event_streams.follow_job(
                    caller, self.job_id, after=after
                )
            async for batch in batches:
                for event in batch.events:
                    inbox.put_nowait(event)
        except Refused:
            return

    async def _watch(self, inbox: "asyncio.Queue[Event | None]") -> None:
        while (event := await inbox.get()) is not None:
            self.seen.append(event)
            if self.rng.random() < self.network.faults.lost_messages / 2:
                return

    def findings(self, newest: int) -> list[str]:
        """Return violations of promise 20: each event once, in order, up to the newest."""
        numbers = [e.position if self.job_id is None else e.seq for e in self.seen]
        if numbers == list(range(1, newest + 1)):
            return []
        return [f"20: a follower of {self.job_id or 'everything'} saw {numbers} of {newest}"]


def _close_inbox(inbox: "asyncio.Queue[Event | None]", _done: "asyncio.Task[Any]") -> None:
    inbox.put_nowait(None)
