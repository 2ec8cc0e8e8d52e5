"""Simulated machines: claim and run jobs, crash, sleep past their leases, send stale reports."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import Message
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.domain.errors import Refused, TwinFactory, Unauthenticated, Unavailable
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.fleet import Command
from gigafactory.wire.workers import OfferView
from tests.simulation.network import Lost, Network
from tests.simulation.runs import Run
from tests.support.builders import NOON

Value = TypeVar("Value")

RESTART_S = 1.0
HEARTBEAT_S = 10.0
SAFETY_CLAIM_S = 15.0
TRIES_MAX = 30


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """The hardware and engines of a machine."""

    mode: str
    """`poll`, `gate` or `stream`."""
    slots: int
    engines: dict[str, int]
    capabilities: tuple[str, ...] = ()
    products: tuple[str, ...] = ("*",)


@dataclass
class Machine:
    """One machine: its factory id and token, and at most one running process."""

    id: str
    secret: str
    spec: MachineSpec
    network: Network
    rng: random.Random
    lease_ttl_s: float
    label: str = ""
    """Distinguishes two machines with the same factory id."""
    boots: int = 0
    requests: int = 0
    versions: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    draining: bool = False
    lost_token: bool = False
    """Whether a response said that the token is invalid."""
    must_poll: bool = False
    """Whether the coordinator requested polling in addition to the offer stream."""
    calm: bool = False
    """Whether runs always succeed and commands are always obeyed."""
    killer_titles: tuple[str, ...] = ()
    """How the titles of jobs end that kill the process that runs them."""
    neighbor: "Machine | None" = None
    """A machine that overhears the offers to this one and accepts them too."""

    def __post_init__(self) -> None:
        self._poll_rng = random.Random(f"beside {self.id} {self.label}")
        self._extra_poll: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._awake = asyncio.Event()
        self._awake.set()

    @property
    def running(self) -> bool:
        """Return whether a process is running."""
        return bool(self._tasks)

    @property
    def instance_id(self) -> str:
        """Return an id that is new at each start."""
        return f"{self.label or self.id}-{self.boots}"

    def boot(self) -> None:
        """Start the factory's process: send unsent reports, then a heartbeat, then claim."""
        self.boots += 1
        self.draining = False
        self.spawn(self._run())

    def crash(self) -> None:
        """Kill the process; keep the state on disk: runs and unsent reports."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks:
            task.cancel()
        for run in self.runs.values():
            run.process_died()

    async def pause(self, seconds: float) -> None:
        """Stop all steps for a while, like SIGSTOP; pending calls still get responses."""
        self._awake.clear()
        await asyncio.sleep(seconds)
        self._awake.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in this process."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def new_key(self) -> str:
        """Return a new Idempotency-Key."""
        self.requests += 1
        return f"{self.instance_id}/{self.requests}"

    async def ask(
        self,
        verb: str,
        do: Callable[[Coordinator, Caller], Awaitable[Value]],
        *,
        key: str | None = None,
        tries: int = TRIES_MAX,
        **request: object,
    ) -> Value:
        """Send a request with the same key until a response arrives.

        Raises Lost after `tries` attempts without a response, and refusals of the coordinator.
        """
        while True:
            await self._awake.wait()
            try:
                value = await self.network.call(
                    f"factory:{self.id}", verb, do, secret=self.secret, key=key, request=request
                )
            except (Lost, Unavailable):
                tries -= 1
                if tries <= 0:
                    raise Lost from None
                await asyncio.sleep(self.rng.uniform(0.1, 2.0))
            except Unauthenticated:
                self.lost_token = True
                raise
            else:
                await self._awake.wait()
                return value

    async def _run(self) -> None:
        for job_id, run in list(self.runs.items()):
            if run.is_resumed(self.rng):
                self.spawn(run.replay(self))
            else:
                del self.runs[job_id]
        sources = {"poll": self._poll, "gate": self._gate, "stream": self._stream}
        await self._heartbeat()
        self.spawn(self._heartbeats())
        self.spawn(sources[self.spec.mode]())

    def _restart(self, boots: int) -> None:
        """Restart the process, as its supervisor does, unless it has restarted since."""
        if self.running and self.boots == boots:
            self.crash()
            self.boot()

    async def die(self) -> None:
        """Restart the process from inside one of its tasks, which ends here."""
        asyncio.get_running_loop().call_soon(self._restart, self.boots)
        await asyncio.Future()

    async def _heartbeats(self) -> None:
        while not self.lost_token:
            await asyncio.sleep(HEARTBEAT_S * self.rng.uniform(0.8, 1.1))
            await self._heartbeat()

    def description(self) -> Factory:
        """Return the machine's description of itself."""
        engines = {
            name: EngineSeats(seats=seats, version=f"1.{self.versions}")
            for name, seats in self.spec.engines.items()
        }
        return Factory(
            id=self.id,
            token_id="",
            instance_id=self.instance_id,
            slots=self.spec.slots,
            engines=engines,
            capabilities=self.spec.capabilities,
            enrolled_at=NOON,
        )

    async def detect_again(self) -> None:
        """Detect the engines again after a user has logged in."""
        await asyncio.sleep(8.0)
        self.versions += 1

    async def _heartbeat(self) -> None:
        description, running = self.description(), list(self.runs)
        try:
            commands = await self.ask(
                "heartbeat",
                lambda c, by: c.factories.heartbeat(by, description, Pressure(), running),
                tries=2,
                factory=self.id,
                instance=description.instance_id,
                running=tuple(running),
            )
        except TwinFactory:
            asyncio.get_running_loop().call_later(RESTART_S, self._restart, self.boots)
            return
        except (Lost, Refused):
            return
        self.draining = any(command.type == "drain" for command in commands)
        self._set_must_poll(requested=any(command.type == "ask" for command in commands))
        for command in commands:
            if command.job_id in self.runs and command.type in {"cancel", "preempt"}:
                self.runs[command.job_id].command(command.type, self)

    def _set_must_poll(self, *, requested: bool) -> None:
        self.must_poll = requested
        if (
            requested
            and self.spec.mode == "stream"
            and (self._extra_poll is None or self._extra_poll.done())
        ):
            self._extra_poll = self.spawn(self._poll_beside_stream())

    async def _poll_beside_stream(self) -> None:
        """Poll in addition to the stream for as long as the coordinator requests it."""
        while self.must_poll and not self.lost_token:
            await self._claim()
            await asyncio.sleep(self._poll_rng.uniform(1.0, 4.0))

    async def _claim(self, wait_s: float = 0.0) -> None:
        free = self.spec.slots - len(self.runs)
        if free <= 0 or self.draining:
            return
        most = self.rng.randint(1, free)
        instance = self.instance_id
        try:
            grants = await self.ask(
                "claim",
                lambda c, by: c.claims.claim(
                    by, self.id, instance_id=instance, wait_s=wait_s, most=most
                ),
                key=self.new_key(),
                tries=3,
                factory=self.id,
                waits=wait_s > 0,
            )
        except (Lost, Refused):
            return
        for grant in grants:
            self.start(grant)

    def start(self, grant: Grant) -> None:
        """Start a run for a lease unless it already runs."""
        original = self.runs.get(grant.job.id)
        if original is not None and original.epoch >= grant.lease.epoch:
            return
        run = self.runs[grant.job.id] = Run(grant, self)
        run.start(self)

    async def _poll(self) -> None:
        while not self.lost_token:
            await self._claim(self.rng.choice((0.0, 4.0, 8.0)))
            await asyncio.sleep(self.rng.uniform(0.2, 3.0))

    async def _gate(self) -> None:
        seen, due = -1, 0.0
        loop = asyncio.get_running_loop()
        while not self.lost_token:
            try:
                version = await self.ask("queue-state", _version, tries=1)
            except (Lost, Refused):
                version = seen + 1
            if version != seen or loop.time() >= due:
                seen, due = version, loop.time() + SAFETY_CLAIM_S
                await self._claim()
            await asyncio.sleep(self.rng.uniform(1.0, 4.0))

    async def _stream(self) -> None:
        """Keep an offer stream open; reconnect when it ends."""
        while not self.lost_token:
            await self._awake.wait()
            node = self.network.node()
            if node.coordinator is not None:
                inbox: asyncio.Queue[Message | None] = asyncio.Queue()
                serving = node.serve(self._serve(node.coordinator, self.secret, inbox))
                serving.add_done_callback(partial(_close_inbox, inbox))
                try:
                    await self._listen(inbox)
                finally:
                    serving.cancel()
            await asyncio.sleep(self.rng.uniform(0.0, 1.5))

    async def _serve(
        self, coordinator: Coordinator, secret: str, inbox: "asyncio.Queue[Message | None]"
    ) -> None:
        """Serve the coordinator's end of the stream."""
        try:
            caller = await coordinator.tokens.caller(secret, product=None)
            async with coordinator.offer_streams.stream(caller, self.id) as messages:
                async for message in messages:
                    if self.rng.random() >= self.network.faults.lost_messages:
                        inbox.put_nowait(message)
        except Unauthenticated:
            self.lost_token = True
        except Refused:
            return

    async def _listen(self, inbox: "asyncio.Queue[Message | None]") -> None:
        """Accept offers and obey commands; drop the stream at random on a bad network."""
        while (message := await inbox.get()) is not None:
            await self._awake.wait()
            sent = message.data
            if isinstance(sent, OfferView) and not self.draining:
                self.spawn(self._accept(sent.job_id, sent.offer_id))
                if self.neighbor is not None:
                    self.neighbor.overhear(sent)
            elif isinstance(sent, Command) and sent.type == "ask":
                self._set_must_poll(requested=True)
            elif isinstance(sent, Command) and sent.job_id in self.runs:
                self.runs[sent.job_id].command(sent.type, self)
            if self.rng.random() < self.network.faults.lost_messages * 2:
                return

    def overhear(self, offered: OfferView) -> None:
        """Try to accept an offer to another factory."""
        if self.running and not self.lost_token and not self.calm:
            self.spawn(self._accept(offered.job_id, offered.offer_id))

    async def _accept(self, job_id: str, offer_id: str) -> None:
        if not self.calm and self.rng.random() < 0.1:
            await self._decline(job_id, offer_id)
            return
        instance = self.instance_id
        try:
            grant = await self.ask(
                "accept",
                lambda c, by: c.claims.accept(by, self.id, job_id, offer_id, instance_id=instance),
                key=self.new_key(),
                tries=4,
                factory=self.id,
                job=job_id,
                offer=offer_id,
            )
        except (Lost, Refused):
            return
        self.start(grant)

    async def _decline(self, job_id: str, offer_id: str) -> None:
        try:
            await self.ask(
                "decline",
                lambda c, by: c.claims.decline(by, self.id, job_id, offer_id, "not now"),
                key=self.new_key(),
                tries=2,
                job=job_id,
            )
        except (Lost, Refused):
            return


def _close_inbox(inbox: "asyncio.Queue[Message | None]", _done: "asyncio.Task[Any]") -> None:
    inbox.put_nowait(None)


async def _version(coordinator: Coordinator, caller: Caller) -> int:
    await asyncio.sleep(0)
    caller.can_see("*")
    return max(coordinator.index.queue_versions.values(), default=0)
