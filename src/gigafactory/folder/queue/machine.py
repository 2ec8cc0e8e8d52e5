"""This machine as a fleet of one: what it can run, and which engines are rate-limited."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory, disable_engine, start_cool_down
from gigafactory.domain.fleet.matching import FactoryTraits, Rejection, match
from gigafactory.domain.job.job import Job, Result, Step
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.machine.detect import DetectedMachine


class LocalMachine:
    """Decides whether a job can run here, now or ever."""

    def __init__(
        self, factory_id: str, detected: DetectedMachine, seats: dict[str, int], *, now: datetime
    ) -> None:
        """Limit engines to `seats`; an engine without an entry is not limited."""
        self.problems: dict[str, str] = {}
        self._seats = seats
        self._factory = Factory(id=factory_id, token_id="", enrolled_at=now)
        self.has(detected)

    def has(self, detected: DetectedMachine) -> None:
        """Update the detected engines; rate limits stay."""
        engines = detected.engines
        self.problems = {name: each.problem for name, each in engines.items() if each.problem}
        configured = self._factory.engines
        usable = {
            name: _with_cool_down(configured.get(name), each.to_engine_seats)
            for name, each in engines.items()
            if not each.problem
        }
        self._factory = replace(
            self._factory,
            capabilities=detected.capabilities,
            engines=usable,
            repos=detected.repos,
            os=detected.os,
        )

    @property
    def id(self) -> str:
        """The name of the machine."""
        return self._factory.id

    def why_never(self, job: Job) -> str | None:
        """Return why this machine cannot run a job; None if it can."""
        step = job.step or Step.RUN
        job_class = JobClass.of(job, step)
        if not job_class.allows_factory(self.id):
            return "it asks for " + ", ".join(
                f"factory:{name}" for name in job_class.required_factories
            )
        fit = match(job_class, FactoryTraits.of(self._factory))
        if not isinstance(fit, Rejection):
            return None
        problem = self.problems.get(base_engine(job.ask.engine or ""))
        return f"this machine cannot run it: {fit.message}" + (f" ({problem})" if problem else "")

    def engines_for(
        self, job: Job, busy: dict[str, int], *, now: datetime
    ) -> tuple[str | None, ...]:
        """Return the engines that a job can use now (None for the ship step)."""
        fit = match(JobClass.of(job, job.step or Step.RUN), FactoryTraits.of(self._factory))
        if isinstance(fit, Rejection):
            return ()
        return tuple(
            choice.engine
            for choice in fit.engines
            if choice.seats is None
            or (self._ready(choice.seats, now) and self._has_seat(choice.seats, busy))
        )

    def state(self, name: str, *, now: datetime) -> EngineSeats | None:
        """Return the state of a rate-limited or unavailable engine; None if it is usable."""
        seats = self._factory.engines.get(name)
        return seats if seats is not None and not seats.is_ready(now) else None

    def _ready(self, name: str, now: datetime) -> bool:
        return self._factory.engines[name].is_ready(now)

    def _has_seat(self, name: str, busy: dict[str, int]) -> bool:
        return name not in self._seats or busy.get(name, 0) < self._seats[name]

    def note(self, engine: str | None, outcome: RunOutcome, *, now: datetime) -> None:
        """Mark an engine as rate-limited or unavailable."""
        if engine is None:
            return
        name = base_engine(engine)
        if outcome.result is Result.RATE_LIMITED:
            after = outcome.retry_after_s
            until = None if after is None else now + timedelta(seconds=after)
            self._factory = start_cool_down(self._factory, name, until, now=now)
        elif outcome.result is Result.ENGINE_UNAVAILABLE:
            self._factory = disable_engine(self._factory, name, outcome.reason)


def _with_cool_down(before: EngineSeats | None, now: EngineSeats) -> EngineSeats:
    if before is None:
        return now
    return replace(now, cooling_until=before.cooling_until, strikes=before.strikes)
