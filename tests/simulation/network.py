"""The network between clients and coordinators: loses, delays and duplicates messages."""

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.tenancy.access import Caller
from tests.simulation.faults import FaultRates
from tests.simulation.history import Exchange, History
from tests.simulation.nodes import Node

Value = TypeVar("Value")
Verb = Callable[[Coordinator, Caller], Awaitable[Value]]

PATIENCE_S = 6.0
"""The time that a client waits for a response."""


class Lost(Exception):  # noqa: N818 - reads as the outcome
    """No response arrived; it is unknown whether the request was served."""


class Network:
    """Carries calls to the coordinator that a client reaches."""

    def __init__(
        self, nodes: Sequence[Node], rng: random.Random, history: History, faults: FaultRates
    ) -> None:
        """Connect clients with these nodes."""
        self.nodes = nodes
        self.faults = faults
        self._rng = rng
        self._history = history

    def node(self) -> Node:
        """Return the coordinator for the next request; it may be down."""
        up = [node for node in self.nodes if node.coordinator is not None]
        return self._rng.choice(up or self.nodes)

    async def call(
        self,
        actor: str,
        verb: str,
        do: Verb[Value],
        *,
        secret: str,
        key: str | None = None,
        product: str | None = None,
        request: dict[str, object],
    ) -> Value:
        """Send a request once and wait for the response.

        Raises Lost if none arrived in time, and refusals of the coordinator.
        """
        loop = asyncio.get_running_loop()
        faults, draw = self.faults, self._rng.random
        requested, at = self._history.moment(), loop.time()
        if draw() < faults.late_messages:
            await asyncio.sleep(draw() * 3.0)
        if draw() < faults.lost_messages:
            await asyncio.sleep(PATIENCE_S)
            raise Lost

        def new_exchange() -> Exchange:
            return Exchange(
                actor=actor,
                verb=verb,
                requested=requested,
                at=at,
                secret=secret,
                key=key,
                request=dict(request),
            )

        if draw() < faults.duplicate_messages:
            loop.call_later(draw() * 20.0, self._deliver_again, new_exchange(), do, product)
        exchange = new_exchange()
        response: asyncio.Future[Value] = loop.create_future()
        task = self._serve(self.node(), exchange, do, product)
        if task is None:
            await asyncio.sleep(0.1)
            raise Lost
        task.add_done_callback(lambda done: self._deliver_response(done, response, exchange))
        if draw() < faults.disconnects:
            loop.call_later(draw() * 0.2, task.cancel)
        try:
            async with asyncio.timeout(PATIENCE_S + 30.0 * bool(request.get("waits"))):
                value = await response
        except TimeoutError:
            raise Lost from None
        return value

    def _deliver_again(self, exchange: Exchange, do: Verb[Any], product: str | None) -> None:
        exchange.requested = self._history.moment()
        exchange.duplicate = True
        self._serve(self.node(), exchange, do, product)

    def _serve(
        self, node: Node, exchange: Exchange, do: Verb[Value], product: str | None
    ) -> "asyncio.Task[Value | None] | None":
        coordinator = node.coordinator
        if coordinator is None:
            return None
        exchange.node = node.name
        self._history.add(exchange)
        return node.serve(self._handle(coordinator, exchange, do, product))

    async def _handle(
        self, coordinator: Coordinator, exchange: Exchange, do: Verb[Value], product: str | None
    ) -> Value | None:
        try:
            caller = await coordinator.tokens.caller(exchange.secret, product=product)
            exchange.response = await do(coordinator, replace(caller, request_key=exchange.key))
            exchange.served = self._history.moment()
        except Refused as refusal:
            exchange.refusal = refusal
            # While the store is down, the outcome of the request is unknown.
            if not isinstance(refusal, Unavailable):
                exchange.served = self._history.moment()
        except Exception:  # noqa: BLE001 - whatever else comes out of a verb is a finding
            self._history.errors.append(
                f"broken: {exchange.verb}: {traceback.format_exc(limit=-3)}"
            )
            exchange.refusal = Unavailable("the request raised an error")
        return None if exchange.refusal is not None else exchange.response

    def _deliver_response(
        self,
        done: "asyncio.Task[Value | None]",
        response: "asyncio.Future[Value]",
        exchange: Exchange,
    ) -> None:
        """Deliver the response unless the process died or the network loses it."""
        if response.done():
            return
        if done.cancelled() or self._rng.random() < self.faults.lost_messages:
            loop = asyncio.get_running_loop()
            loop.call_later(1.0, _set_lost, response)
            return
        exchange.received = self._history.moment()
        if exchange.refusal is not None:
            response.set_exception(exchange.refusal)
        else:
            response.set_result(exchange.response)


def _set_lost(response: "asyncio.Future[Any]") -> None:
    if not response.done():
        response.set_exception(Lost())
