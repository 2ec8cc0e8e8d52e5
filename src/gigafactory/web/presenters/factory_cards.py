"""Cards of factories: state, capabilities, engines and running jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import asdict, replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals, health_score, is_online
from gigafactory.domain.fleet.matching import SANDBOX_BROKEN
from gigafactory.domain.job.job import RUNNING, Job, Stage, Step
from gigafactory.domain.tenancy.access import Caller

JOBS_MAX = 500


class EngineRow(NamedTuple):
    """One engine of a factory."""

    name: str
    seats: EngineSeats
    used: int
    cooling_until: datetime | None
    """End of the engine's cooldown; None if it is not cooling down."""


class FactoryCard(NamedTuple):
    """One factory."""

    factory: Factory
    vitals: Vitals | None
    online: bool
    health: int
    """In percent."""
    running: Sequence[Job]
    engines: Sequence[EngineRow]
    exclusive: Sequence[str]
    """Capabilities that no other factory has."""
    controlled: bool
    """Whether the caller's scope covers every product that it serves."""

    @property
    def loads(self) -> Mapping[str, float]:
        """Reported load of the machine by resource, from 0 to 1."""
        pressure = asdict(self.vitals.pressure) if self.vitals else {}
        return {name: share for name, share in pressure.items() if share is not None}

    @property
    def no_yolo(self) -> bool:
        """Whether it takes no yolo jobs, because it has no sandbox that works."""
        return SANDBOX_BROKEN in self.factory.capabilities

    @property
    def state(self) -> str:
        """`offline`, `draining` or `online`."""
        if not self.online:
            return "offline"
        return "draining" if self.factory.draining else "online"


async def list_factory_cards(coordinator: Coordinator, caller: Caller) -> Sequence[FactoryCard]:
    """Return a card for each factory that the caller can see, by id."""
    now = coordinator.clock.now()
    # Show the jobs of all products on a machine, whatever product is chosen.
    caller = replace(caller, product=None)
    factories = await coordinator.factories.all(caller)
    stages = (*sorted(RUNNING), Stage.TESTING)
    jobs = await coordinator.jobs.find(caller, JobQuery(stages=stages, limit=JOBS_MAX))
    running = [job for job in jobs if job.lease is not None]
    machines = Counter(token for factory in factories for token in {*factory.capabilities})
    rare = {token for token, count in machines.items() if count == 1 < len(factories)}
    return [
        _card(
            coordinator.factories.visible_part(caller, factory),
            coordinator.factories.vitals(factory.id),
            running,
            rare,
            now,
            controlled=caller.covers_all(factory.products),
        )
        for factory in sorted(factories, key=lambda factory: factory.id)
    ]


def _card(
    factory: Factory,
    vitals: Vitals | None,
    running: Sequence[Job],
    rare: AbstractSet[str],
    now: datetime,
    *,
    controlled: bool,
) -> FactoryCard:
    own_jobs = [job for job in running if job.lease and job.lease.factory_id == factory.id]
    rows = [
        EngineRow(
            name,
            seats,
            sum(1 for job in own_jobs if _uses(job, name)),
            seats.cooling_until if seats.cooling_until and seats.cooling_until > now else None,
        )
        for name, seats in sorted(factory.engines.items())
    ]
    health = round(health_score(vitals, now) * 100) if vitals else 0
    exclusive = [token for token in factory.capabilities if token in rare]
    return FactoryCard(
        factory, vitals, is_online(vitals, now), health, own_jobs, rows, exclusive, controlled
    )


def _uses(job: Job, engine: str) -> bool:
    return job.lease is not None and job.lease.step is Step.RUN and job.lease.engine == engine
