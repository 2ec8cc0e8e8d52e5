"""Records of factories: enrollment, heartbeats, state."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure
from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.capability import parse_advertised
from gigafactory.wire.fields import (
    FactoryId,
    JobId,
    Line,
    RequestDoc,
    ResponseView,
    Scope,
    Timestamp,
    Word,
)
from gigafactory.wire.jobs import JobView
from gigafactory.wire.limits import INVITATION_LASTS


class EngineView(ResponseView, frozen=True, kw_only=True):
    """An engine on a factory."""

    version: str | None
    seats: int
    cooling_until: Timestamp | None
    unavailable: str | None


class FactoryView(ResponseView, frozen=True, kw_only=True):
    """The current state of a factory."""

    id: str
    instance_id: str
    online: bool
    health: float
    """0 to 1; below 0.3 it gets no work."""
    draining: bool
    streaming: bool
    last_seen: Timestamp | None
    enrolled_at: Timestamp
    products: tuple[str, ...]
    os: str | None
    labels: tuple[str, ...]
    capabilities: tuple[str, ...]
    engines: dict[str, EngineView]
    slots: int
    repos: tuple[str, ...]
    cost_class: int
    sandbox: str | None
    version: str | None
    pressure: Pressure
    jobs: tuple[JobView, ...] | UnsetType = UNSET
    """Jobs that it holds leases on; only when one factory is requested."""


class FactoriesView(ResponseView, frozen=True, kw_only=True):
    """Factories by id."""

    factories: tuple[FactoryView, ...]


class Command(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A command for a factory; derived from state, so that none is lost."""

    event: ClassVar[str] = "command"

    type: Literal["cancel", "preempt", "drain", "ask"]
    """`ask`: also claim work, because jobs of some product are not offered."""
    job_id: str | None = None


class SettingsView(ResponseView, frozen=True, kw_only=True):
    """Intervals that the factory must use."""

    lease_ttl_sec: float
    renew_sec: float
    heartbeat_sec: float


class HeartbeatView(ResponseView, frozen=True, kw_only=True):
    """Response to a heartbeat: server time, intervals, commands."""

    server_time: Timestamp
    settings: SettingsView
    commands: tuple[Command, ...]


COOLING_MAX = timedelta(days=31)


Seats = Annotated[int, Meta(ge=0, le=1000)]


Fraction = Annotated[
    float, Meta(ge=0, le=100, description="0 to 1; a value above 1 is a percentage")
]


EngineName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$(?!\n)")]


Labels = Annotated[tuple[Line, ...], Meta(max_length=100)]


class EngineDoc(RequestDoc, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One engine on the factory."""

    version: Word | None = None
    seats: Seats = 1
    cooling_until: Annotated[datetime, Meta(tz=True)] | None = None
    unavailable: Line | None = None


class HeartbeatDoc(RequestDoc, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """State of a factory; unknown values may be omitted."""

    factory_id: FactoryId
    instance_id: Word
    place: Line | None = None
    """Host and data folder; tells a restarted factory from a copy of its data folder."""
    capabilities: Annotated[tuple[str, ...], Meta(max_length=500)] = ()
    engines: Annotated[dict[EngineName, EngineDoc], Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    seats: Annotated[dict[EngineName, Seats], Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Instead of `engines`, if only the seats are known."""
    slots: Seats = 0
    running: Annotated[tuple[JobId, ...], Meta(max_length=1000)] = ()
    repos: Annotated[tuple[Word, ...], Meta(max_length=1000)] = ()
    labels: Labels = ()
    os: Word | None = None
    may_clone: bool = True
    cost_class: Annotated[int, Meta(ge=0, le=3)] = 1
    sandbox: Word | None = None
    load: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    cpu: Fraction | None = None
    memory: Fraction | None = None
    disk: Fraction | None = None
    version: Word | None = None

    def to_domain(self, now: datetime) -> Factory:
        """Return the factory as advertised; the coordinator fills in the rest.

        Raises Invalid for an invalid capability or cooling time.
        """
        parse_advertised(self.capabilities, subject="the heartbeat")
        engines = {name: _seats(name, doc, now) for name, doc in self.engines.items()}
        for name, count in self.seats.items():
            seats = engines.get(name, EngineSeats())
            engines[name] = msgspec.structs.replace(seats, seats=count)
        return Factory(
            id=self.factory_id,
            token_id="",
            instance_id=self.instance_id,
            place=self.place,
            os=self.os,
            labels=self.labels,
            capabilities=self.capabilities,
            engines=engines,
            slots=self.slots,
            repos=self.repos,
            may_clone=self.may_clone,
            cost_class=self.cost_class,
            sandbox=self.sandbox,
            version=self.version,
            enrolled_at=now,
        )

    @property
    def pressure(self) -> Pressure:
        """Load of the machine."""
        return Pressure(
            load=self.load,
            cpu=_fraction(self.cpu),
            memory=_fraction(self.memory),
            disk=_fraction(self.disk),
        )


def _fraction(value: float | None) -> float | None:
    return value if value is None or value <= 1 else value / 100


def _seats(name: str, doc: EngineDoc, now: datetime) -> EngineSeats:
    until = doc.cooling_until
    if until is not None and until - now > COOLING_MAX:
        fault = Fault(
            f"engines.{name}.coolingUntil", f"is more than {COOLING_MAX.days} days from now"
        )
        raise Invalid("the heartbeat", [fault])
    return EngineSeats(
        version=doc.version,
        seats=doc.seats,
        cooling_until=until and until.replace(microsecond=until.microsecond // 1000 * 1000),
        unavailable=doc.unavailable,
    )


class EnrollDoc(RequestDoc, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The enrollment secret, and the factory's id."""

    secret: Annotated[str, Meta(min_length=1, max_length=200)]
    factory_id: FactoryId
    os: Word | None = None
    labels: Labels = ()


class DrainDoc(RequestDoc, frozen=True, kw_only=True):
    """Whether the factory is drained (default), or takes work again."""

    draining: bool = True


class RevokedView(ResponseView, frozen=True, kw_only=True):
    """The factory whose token was revoked."""

    factory_id: str


class Membership(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A factory's token; shown once."""

    factory_id: str
    token: str


class EnrollmentView(ResponseView, frozen=True, kw_only=True):
    """An enrollment, without its secret."""

    id: str
    products: tuple[str, ...]
    capabilities: tuple[str, ...] | None
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp
    used_by: str | None


LASTS_MAX_S = 30 * 86_400


class InviteDoc(RequestDoc, frozen=True, kw_only=True):
    """An enrollment: products, allowed capabilities, lifetime of the secret."""

    products: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=100)]
    capabilities: Annotated[tuple[str, ...], Meta(max_length=500)] | None = None
    expires_in: Annotated[float, Meta(ge=1, le=LASTS_MAX_S, description="seconds")] = (
        INVITATION_LASTS.total_seconds()
    )


class InvitationView(ResponseView, frozen=True, kw_only=True):
    """An enrollment secret; shown once."""

    id: str
    secret: str
    expires_at: Timestamp


class EnrollmentsView(ResponseView, frozen=True, kw_only=True):
    """Enrollments, oldest first."""

    enrollments: tuple[EnrollmentView, ...]


class Capacity(ResponseView, frozen=True, kw_only=True):
    """Factories and their utilization."""

    total: int
    online: int
    draining: int
    streaming: int
    slots: int
    """Slots of online factories."""
    running: int
    """Active leases."""
    utilization: float
    """Running divided by slots, 0 to 1."""


class FleetMetrics(ResponseView, frozen=True, kw_only=True):
    """Fleet metrics within the caller's products."""

    stages: Mapping[Stage, int]
    board: Mapping[str, int]
    """Jobs by column of the board."""
    queue_depth: int
    factories: Capacity
