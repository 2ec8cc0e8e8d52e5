"""A folder that a factory serves besides its fleet: the folder's runner on shared seats."""

from collections.abc import Callable, Iterable

from gigafactory.factory.agent.capacity import MachineCapacity, WorkOrigin
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.store import QueueClock
from gigafactory.folder.runner import Runner
from gigafactory.system.loops import run_every

AGAIN_S = 5.0


class SharedCapacity:
    """Shares the machine's capacity between the fleet and the folder's runner."""

    def __init__(
        self, room: MachineCapacity, engines: Iterable[str], notify: Callable[[], None]
    ) -> None:
        """`notify` is called when the capacity left for the fleet may have changed."""
        self._room = room
        self._engines = tuple(engines)
        self._notify = notify

    def may_start(self, engine: str | None) -> bool:
        return self._room.local_can_start(engine)

    def run_started(self, engine: str | None) -> None:
        self._room.record_start(WorkOrigin.LOCAL, engine)
        self._notify()

    def run_ended(self) -> None:
        self._notify()

    def report_waiting(self, engines: Iterable[str | None]) -> None:
        if self._room.set_local_waiting(engines):
            self._notify()
        self._room.record_offered(self._engines)


class Inbox:
    """The local work of a factory."""

    def __init__(
        self, runner: Runner, room: MachineCapacity, machine: LocalMachine, clock: QueueClock
    ) -> None:
        """Use this runner; its runs take up `room`."""
        self._runner = runner
        self._machine = machine
        self._clock = clock
        room.track_running(
            WorkOrigin.LOCAL, lambda: [one.assignment.engine for one in runner.running.values()]
        )

    @property
    def jobs_started(self) -> int:
        return self._runner.jobs_started

    async def run(self) -> None:
        await run_every(AGAIN_S, self._step, name="inbox")

    async def _step(self) -> None:
        await self._runner.run()

    async def wait_idle(self) -> None:
        await self._runner.wait_idle()

    def drain(self) -> None:
        self._runner.stop_taking()

    def stop(self) -> None:
        self._runner.stop()

    def record_outcome(self, engine: str | None, outcome: RunOutcome) -> None:
        self._machine.note(engine, outcome, now=self._clock.now())
