"""Offer streams: offers and commands, pushed to a factory over its open connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gigafactory.coordinator.core.ports import Dispatch, Message, Store
from gigafactory.coordinator.fleet.factories import Factories
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.offer import offer_id
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.fields import timestamp
from gigafactory.wire.workers import OfferView

LEAVING = frozenset(
    {event_types.TOKEN_REVOKED, event_types.TOKEN_ROTATED, event_types.FACTORY_DEREGISTERED}
)
COMMANDING = frozenset(
    {
        event_types.CANCELLED,
        event_types.SUPERSEDED,
        event_types.PREEMPT_REQUESTED,
        event_types.RELEASED,
    }
)


class OfferStreams:
    """Delivers offers and commands from the feed to the streams open at this coordinator."""

    def __init__(
        self,
        store: Store,
        dispatch: Dispatch,
        index: Index,
        workers: WorkerWrites,
        factories: Factories,
        *,
        coordinator_id: str,
    ) -> None:
        self._store = store
        self._dispatch = dispatch
        self._index = index
        self._workers = workers
        self._factories = factories
        self._me = coordinator_id
        self._open: dict[str, Caller] = {}
        """By factory, the caller that opened its stream here."""
        index.subscribe(self.on_entry)

    def on_entry(self, entry: FeedEntry) -> None:
        """Send the offers and commands that follow from a feed entry."""
        event, job = entry.event, entry.job
        if event.type == event_types.OFFERED and job is not None:
            if (message := offer_message(job)) is not None:
                self._dispatch.send(message)
        elif event.type in COMMANDING and job is not None:
            for factory_id in {
                lease.factory_id for lease in (*job.ending, *filter(None, (job.lease,)))
            }:
                self._send_commands(factory_id)
        elif event.type in LEAVING and "factoryId" in event.data:
            self._dispatch.close_streams(event.data["factoryId"])
        elif event.type == event_types.FACTORY_DRAINING:
            self._send_commands(event.data["factoryId"])
        elif event.type == event_types.DISPATCH_CHANGED:
            for factory_id in tuple(self._open):
                self._send_commands(factory_id)

    def _send_commands(self, factory_id: str) -> None:
        for command in self._factories.commands(factory_id):
            self._dispatch.send(Message(factory_id=factory_id, data=command))

    @asynccontextmanager
    async def stream(
        self, caller: Caller, factory_id: str
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Open a stream of offers and commands for one factory, standing ones first.

        Raises Forbidden, NotFound.
        """
        await self._workers.require_factory(caller, factory_id)
        async with self._dispatch.open_stream(factory_id) as messages:
            self._open[factory_id] = caller
            await self._factories.set_streaming(caller, factory_id, self._me)
            open_offers = await self._store.jobs(self._index.assignments.offered_jobs(factory_id))
            for job in open_offers.values():
                message = offer_message(job)
                if message is not None and message.factory_id == factory_id:
                    self._dispatch.send(message)
            self._send_commands(factory_id)
            try:
                yield messages
            finally:
                await self._stream_ended(caller, factory_id)

    async def _stream_ended(self, caller: Caller, factory_id: str) -> None:
        # One stream is this one; with more, the factory has reconnected before this one ended.
        if self._dispatch.stream_count(factory_id) <= 1:
            self._open.pop(factory_id, None)
            await self._factories.set_streaming(caller, factory_id, self._me, ended=True)

    async def step(self) -> None:
        """Record again each stream that is open here but that its factory's record does not show.

        The end of an older stream may have been recorded after the start of the present one.
        """
        for factory_id, caller in tuple(self._open.items()):
            factory = self._index.factories.get(factory_id)
            if factory is not None and factory.streaming is None:
                await self._factories.set_streaming(caller, factory_id, self._me)


def offer_message(job: Job) -> Message | None:
    """Return the message for a job's standing offer, or None if it has none."""
    if job.offer is None:
        return None
    data = OfferView(
        offer_id=offer_id(job.id, job.offer),
        job_id=job.id,
        product_id=job.product_id,
        repo=job.ask.repo,
        caps=job.ask.needs,
        priority=job.priority,
        step=job.offer.step,
        engine=job.offer.engine,
        target_factory_id=job.offer.factory_id,
        expires_at=timestamp(job.offer.expires_at),
    )
    return Message(factory_id=job.offer.factory_id, data=data)
