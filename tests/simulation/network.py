"""The way between clients and coordinators: requests and answers get lost, late or doubled."""

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.tenancy.access import Caller
from tests.simulation.history import Exchange, History
from tests.simulation.nodes import Node
from tests.simulation.weather import Weather

Value = TypeVar("Value")
Verb = Callable[[Coordinator, Caller], Awaitable[Value]]

PATIENCE_S = 6.0
"""How long a client waits for an answer."""


class Lost(Exception):  # noqa: N818 - named after what happened
    """No answer came: whether the request was served is not known."""


class Network:
    """Carries calls to whichever coordinator a client reaches."""

    def __init__(
        self, nodes: Sequence[Node], rng: random.Random, history: History, weather: Weather
    ) -> None:
        """Connect clients with these nodes."""
        self.nodes = nodes
        self.weather = weather
        self._rng = rng
        self._history = history

    def node(self) -> Node:
        """Return the coordinator for the next request; it may be down."""
        up = [node for node in self.nodes if node.coordinator is not None]
        return self._rng.choice(up or self.nodes)

    async def call(
        self,
        who: str,
        verb: str,
        do: Verb[Value],
        *,
        secret: str,
        key: str | None = None,
        product: str | None = None,
        request: dict[str, object],
    ) -> Value:
        """Ask once and wait for the answer.

        Raises Lost when none came in time, and whatever the coordinator refused.
        """
        loop = asyncio.get_running_loop()
        weather, draw = self.weather, self._rng.random
        asked, at = self._history.moment(), loop.time()
        if draw() < weather.late_messages:
            await asyncio.sleep(draw() * 3.0)
        if draw() < weather.lost_messages:
            await asyncio.sleep(PATIENCE_S)
            raise Lost

        def exchange() -> Exchange:
            return Exchange(
                who=who,
                verb=verb,
                asked=asked,
                at=at,
                secret=secret,
                key=key,
                request=dict(request),
            )

        if draw() < weather.doubled_messages:
            loop.call_later(draw() * 20.0, self._again, exchange(), do, product)
        made = exchange()
        answer: asyncio.Future[Value] = loop.create_future()
        task = self._serve(self.node(), made, do, product)
        if task is None:
            await asyncio.sleep(0.1)
            raise Lost
        task.add_done_callback(lambda done: self._answered(done, answer, made))
        if draw() < weather.hang_ups:
            loop.call_later(draw() * 0.2, task.cancel)
        try:
            async with asyncio.timeout(PATIENCE_S + 30.0 * bool(request.get("waits"))):
                value = await answer
        except TimeoutError:
            raise Lost from None
        return value

    def _again(self, made: Exchange, do: Verb[Any], product: str | None) -> None:
        made.asked = self._history.moment()
        made.doubled = True
        self._serve(self.node(), made, do, product)

    def _serve(
        self, node: Node, made: Exchange, do: Verb[Value], product: str | None
    ) -> "asyncio.Task[Value | None] | None":
        coordinator = node.coordinator
        if coordinator is None:
            return None
        made.node = node.name
        self._history.asked(made)
        return node.serve(self._handle(coordinator, made, do, product))

    async def _handle(
        self, coordinator: Coordinator, made: Exchange, do: Verb[Value], product: str | None
    ) -> Value | None:
        try:
            caller = await coordinator.tokens.caller(made.secret, product=product)
            made.answer = await do(coordinator, replace(caller, request_key=made.key))
            made.served = self._history.moment()
        except Refused as refusal:
            made.refusal = refusal
            # With the store away it is not known what became of the request.
            if not isinstance(refusal, Unavailable):
                made.served = self._history.moment()
        except Exception:  # noqa: BLE001 - whatever else comes out of a verb is a finding
            self._history.broken.append(f"broken: {made.verb}: {traceback.format_exc(limit=-3)}")
            made.refusal = Unavailable("the verb broke")
        return None if made.refusal is not None else made.answer

    def _answered(
        self, done: "asyncio.Task[Value | None]", answer: "asyncio.Future[Value]", made: Exchange
    ) -> None:
        """Bring the answer on its way back, unless the process died or the way loses it."""
        if answer.done():
            return
        if done.cancelled() or self._rng.random() < self.weather.lost_messages:
            loop = asyncio.get_running_loop()
            loop.call_later(1.0, _set_lost, answer)
            return
        made.heard = self._history.moment()
        if made.refusal is not None:
            answer.set_exception(made.refusal)
        else:
            answer.set_result(made.answer)


def _set_lost(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(Lost())
