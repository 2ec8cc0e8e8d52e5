"""Factories as pages show them: how each is, what it can do, and what runs there now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import asdict, replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals, health_score, is_online
from gigafactory.domain.job.job import RUNNING, Job, Stage, Step
from gigafactory.domain.tenancy.access import Caller

JOBS_MAX = 500


class EngineRow(NamedTuple):
    """One engine of a factory."""

    name: str
    seats: EngineSeats
    used: int
    cooling: datetime | None
    """Until when it rests; None when it does not."""


class Card(NamedTuple):
    """One factory."""

    factory: Factory
    vitals: Vitals | None
    online: bool
    health: int
    """In percent."""
    running: Sequence[Job]
    engines: Sequence[EngineRow]
    alone: Sequence[str]
    """What of its capabilities no other machine has."""

    @property
    def loads(self) -> Mapping[str, float]:
        """How hard the machine works, each from 0 to 1, as far as it tells."""
        told = asdict(self.vitals.pressure) if self.vitals else {}
        return {name: share for name, share in told.items() if share is not None}

    @property
    def state(self) -> str:
        """In a word."""
        if not self.online:
            return "offline"
        return "draining" if self.factory.draining else "online"


async def cards(coordinator: Coordinator, caller: Caller) -> Sequence[Card]:
    """Every factory that the caller may see, by its id."""
    now = coordinator.clock.now()
    # A machine is as busy as it is, whatever product is looked at.
    caller = replace(caller, product=None)
    factories = await coordinator.factories.all(caller)
    stages = (*sorted(RUNNING), Stage.TESTING)
    found = await coordinator.jobs.find(caller, JobQuery(stages=stages, limit=JOBS_MAX))
    running = [job for job in found if job.lease is not None]
    machines = Counter(token for factory in factories for token in {*factory.capabilities})
    rare = {token for token, count in machines.items() if count == 1 < len(factories)}
    return [
        _card(factory, coordinator.factories.vitals(factory.id), running, rare, now)
        for factory in sorted(factories, key=lambda factory: factory.id)
    ]


def _card(
    factory: Factory,
    vitals: Vitals | None,
    running: Sequence[Job],
    rare: AbstractSet[str],
    now: datetime,
) -> Card:
    here = [job for job in running if job.lease and job.lease.factory_id == factory.id]
    rows = [
        EngineRow(
            name,
            seats,
            sum(1 for job in here if _uses(job, name)),
            seats.cooling_until if seats.cooling_until and seats.cooling_until > now else None,
        )
        for name, seats in sorted(factory.engines.items())
    ]
    well = round(health_score(vitals, now) * 100) if vitals else 0
    alone = [token for token in factory.capabilities if token in rare]
    return Card(factory, vitals, is_online(vitals, now), well, here, rows, alone)


def _uses(job: Job, engine: str) -> bool:
    return job.lease is not None and job.lease.step is Step.RUN and job.lease.engine == engine
