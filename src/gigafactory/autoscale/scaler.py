"""The autoscaler: compares demand with machines, and starts or drains them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from gigafactory.autoscale.provider import ScalingTarget
from gigafactory.client import events as stories
from gigafactory.client import fleet
from gigafactory.client.scaling import scaling
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.call import ApiCall
from gigafactory.domain.errors import Conflict, NotFound, Refused, TooManyRequests, Unavailable
from gigafactory.domain.scaling import scale_plan
from gigafactory.domain.scaling.scale_plan import MachineState, ScaleMemory, ScalePlan, ShapeMachine
from gigafactory.domain.scaling.scale_target import FactoryState, ShapeFactory
from gigafactory.wire.scaling import ScaleTargetView

AT_MOST_EVERY_S = 0.5
"""Minimum time between two steps; the first event after a quiet period is handled at once."""
STREAM_AGAIN_S = 3.0
AWAY_MIN_S = 0.5
AWAY_MAX_S = 30.0
STOP_AGAIN = timedelta(seconds=30)

log = structlog.get_logger()

ONLINE = frozenset({FactoryState.IDLE, FactoryState.BUSY})


class ScalingNotice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A scaling decision about a shape, or a problem."""

    at: datetime | None = None
    shape: str | None = None
    wanted: int | None = None
    live: int | None = None
    start: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    problem: str | None = None
    says: str
    """The same as a sentence."""


class _ShapeState:
    """The autoscaler's state of one shape."""

    def __init__(self, scaled: ScalingTarget) -> None:
        self.scaled = scaled
        self.memory = ScaleMemory()
        self.starting: set[str] = set()
        """Machines that are being started."""
        self.stopped: dict[str, datetime] = {}
        """Machines that the provider was asked to stop, and when."""
        self.last_notices: dict[str, str] = {}
        """Last notice per subject: unchanged ones are not repeated."""


class Scaler:
    """Scales shapes step by step; all durable state is in the fleet."""

    def __init__(
        self,
        client: AsyncClient,
        shapes: Sequence[ScalingTarget],
        notify: Callable[[ScalingNotice], None],
        *,
        dry_run: bool = False,
    ) -> None:
        self._client = client
        self._states = [_ShapeState(scaled) for scaled in shapes]
        self._notify = notify
        self._dry_run = dry_run
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self.problems = 0
        """Number of problems so far."""

    async def run(self, poll_every_s: float) -> None:
        """Scale until cancelled; waits while the coordinator is unavailable.

        Raises Refused if the coordinator refuses the autoscaler.
        """
        listening = asyncio.create_task(self._listen())
        away_s = 0.0
        try:
            while True:
                self._wake.clear()
                try:
                    await self.step()
                except (Unavailable, TooManyRequests) as away:
                    if not away_s:
                        self._report(None, f"scaling is paused: {away.detail}")
                    away_s = min(2 * away_s or AWAY_MIN_S, AWAY_MAX_S)
                    await asyncio.sleep(away_s)
                else:
                    away_s = 0.0
                    await asyncio.sleep(AT_MOST_EVERY_S)
                    await self._wait_for_wake(poll_every_s)
        finally:
            listening.cancel()
            await asyncio.gather(listening, *self._tasks, return_exceptions=True)

    async def _wait_for_wake(self, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _listen(self) -> None:
        """Wake up for every event; without the stream, the next poll notices changes."""
        while True:
            try:
                async for _ in self._client.follow(stories.product_stream()):
                    self._wake.set()
            except Refused:
                await asyncio.sleep(STREAM_AGAIN_S)

    async def step(self) -> None:
        """Compare demand and machines once, and start the necessary actions.

        Raises Refused.
        """
        scaling_state = await self._client.send(
            scaling([state.scaled.shape for state in self._states])
        )
        for state, target in zip(self._states, scaling_state.shapes, strict=True):
            try:
                existing = await self._existing(state, target)
            except Refused as refused:
                self._report_once(state, "list", f"not scaled: {refused.detail}")
                continue
            state.last_notices.pop("list", None)
            await self._scale(state, target, existing, scaling_state.at)

    async def wait_until_idle(self) -> None:
        """Wait until all started actions are done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _existing(self, state: _ShapeState, target: ScaleTargetView) -> frozenset[str]:
        provider = state.scaled.provider
        listed = await provider.list_machines() | state.starting
        if provider.list_is_complete:
            return listed
        return listed | {one.id for one in target.factories if one.state in ONLINE}

    async def _scale(
        self, state: _ShapeState, target: ScaleTargetView, existing: frozenset[str], now: datetime
    ) -> None:
        limits, before = state.scaled.limits, state.memory
        members = msgspec.convert(target.factories, tuple[ShapeFactory, ...], from_attributes=True)
        machines, memory = scale_plan.assess_machines(members, existing, before, limits, now)
        if memory.joined - before.joined:
            memory = scale_plan.record_start_success(memory)
        state.memory = memory
        self._report_bad_machines(state, machines, members, now)
        steps, state.memory = scale_plan.plan_scaling(
            target.wanted, machines, state.memory, limits, now
        )
        taken = [machine.name for machine in machines]
        names = scale_plan.free_names(state.scaled.shape.factories, taken, steps.start)
        ended = [
            one for one in machines if one.name in steps.end and self._may_end(state, one, now)
        ]
        self._report_decision(state, target, steps, names, ended, now)
        if self._dry_run:
            return
        for name in names:
            state.starting.add(name)
            self._spawn(self._start(state, name, now))
        for name in steps.drain:
            await self._send_if_needed(fleet.drain(name))
        for machine in ended:
            await self._end(state, machine, now)

    def _report_bad_machines(
        self,
        state: _ShapeState,
        machines: Iterable[ShapeMachine],
        factories: Iterable[ShapeFactory],
        now: datetime,
    ) -> None:
        """Report machines that died or did not join; each one delays the next start."""
        by_id = {factory.id: factory for factory in factories}
        for one in machines:
            factory = by_id.get(one.name)
            has_died = factory is not None and not one.exists and factory.state in ONLINE
            if one.state is MachineState.STUCK or has_died:
                why = "died" if has_died else "was started but has not joined"
                if self._report_once(state, one.name, f"{one.name} {why}"):
                    state.memory = scale_plan.record_start_failure(state.memory, now)
            elif factory is not None and factory.lacks and one.state in scale_plan.LIVE:
                missing = ", ".join(factory.lacks)
                self._report_once(
                    state, one.name, f"{one.name} lacks capabilities of its shape: {missing}"
                )
        for name in (
            state.last_notices.keys() - by_id.keys() - {one.name for one in machines} - {"list", ""}
        ):
            del state.last_notices[name]

    @staticmethod
    def _may_end(state: _ShapeState, machine: ShapeMachine, now: datetime) -> bool:
        """Whether to ask the provider to stop a machine, again only after a while."""
        stop_requested_at = state.stopped.get(machine.name)
        return (
            not machine.exists or stop_requested_at is None or now - stop_requested_at > STOP_AGAIN
        )

    async def _start(self, state: _ShapeState, name: str, now: datetime) -> None:
        try:
            await state.scaled.provider.start(name)
        except Refused as refused:
            state.memory = scale_plan.record_start_failure(state.memory, now)
            self._report(state, f"cannot start {name}: {refused.detail}")
        finally:
            state.starting.discard(name)
            self._wake.set()

    async def _end(self, state: _ShapeState, machine: ShapeMachine, now: datetime) -> None:
        """Stop an idle machine: first the provider, then deregister its factory."""
        if machine.exists:
            state.stopped[machine.name] = now
            self._spawn(self._stop(state, machine.name))
        elif machine.enrolled:
            state.stopped.pop(machine.name, None)
            await self._send_if_needed(fleet.deregister(machine.name))

    async def _stop(self, state: _ShapeState, name: str) -> None:
        try:
            await state.scaled.provider.stop(name)
        except Refused as refused:
            self._report(state, f"cannot stop {name}: {refused.detail}")
        finally:
            self._wake.set()

    async def _send_if_needed(self, call: ApiCall[Any]) -> None:
        """Send a call that may have become unnecessary meanwhile."""
        try:
            await self._client.send(call)
        except (NotFound, Conflict):
            self._wake.set()

    def _spawn(self, act: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problems += 1
            log.error("scaling action failed; the next step tries again", exc_info=error)

    def _report_decision(
        self,
        state: _ShapeState,
        target: ScaleTargetView,
        steps: ScalePlan,
        names: Sequence[str],
        ended: Sequence[ShapeMachine],
        now: datetime,
    ) -> None:
        ends = tuple(machine.name for machine in ended)
        says = f"{state.scaled.shape.name}: {_describe_demand(target, steps)}; "
        says += _describe_actions(names, steps.drain, ends) or _describe_idle(target, steps)
        if state.last_notices.get("") == says:
            return
        state.last_notices[""] = says
        self._notify(
            ScalingNotice(
                at=now,
                shape=state.scaled.shape.name,
                wanted=target.wanted,
                live=steps.live,
                start=tuple(names),
                drain=steps.drain,
                end=ends,
                says=says,
            )
        )

    def _report_once(self, state: _ShapeState, subject: str, problem: str) -> bool:
        """Report a problem unless it was reported before; return whether it was new."""
        if state.last_notices.get(subject) == problem:
            return False
        state.last_notices[subject] = problem
        self._report(state, problem)
        return True

    def _report(self, state: _ShapeState | None, problem: str) -> None:
        self.problems += 1
        name = state.scaled.shape.name if state is not None else None
        says = f"{name}: {problem}" if name is not None else problem
        self._notify(ScalingNotice(shape=name, problem=problem, says=says))


def _describe_demand(target: ScaleTargetView, steps: ScalePlan) -> str:
    waits = "nothing waits" if not target.waiting else f"{target.waiting} waiting"
    late = ", some of them late" if target.late else ""
    return f"{waits}{late}, {target.needed} at work, {target.wanted} wanted, {steps.live} there"


def _describe_actions(start: Sequence[str], drain: Sequence[str], end: Sequence[str]) -> str:
    done = (("starts", start), ("drains", drain), ("ends", end))
    return ", ".join(f"{verb} {', '.join(names)}" for verb, names in done if names)


def _describe_idle(target: ScaleTargetView, steps: ScalePlan) -> str:
    if steps.retry_at is not None:
        return f"starts again at {steps.retry_at:%H:%M:%S} UTC"
    if steps.live < target.wanted:
        return "waits for free capacity"
    if steps.live > steps.keep:
        return "waits until one has nothing to do"
    return "cools down" if steps.live > target.wanted else "all is well"
