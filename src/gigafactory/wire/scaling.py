"""Records of demand and of the number of factories wanted."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority, Step
from gigafactory.domain.manifest.capability import parse_advertised
from gigafactory.domain.scaling.scale_target import FactoryState, Shape
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp

Number = Annotated[int, Meta(ge=0, le=10_000)]


Several = Annotated[int, Meta(ge=1, le=1000)]


Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)", examples=["linux"])]


Names = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)", examples=["keda.linux."])
]


_ENGINE = r"[a-z0-9][a-z0-9._-]{0,99}(=[0-9]{1,4})?"


Seats = Annotated[
    str, Meta(pattern=rf"^{_ENGINE}(,{_ENGINE}){{0,99}}$(?!\n)", examples=["claude=2,codex"])
]


Listed = Annotated[str, Meta(min_length=1, max_length=10_000, examples=["os:linux,node:20"])]


class ShapeDoc(RequestDoc, frozen=True, kw_only=True):
    """What machines of a shape would offer, and how many there may be."""

    name: Name = "shape"
    factories: Names | None = None
    """How the names of the shape's factories begin; those at work count as wanted."""
    capabilities: Listed | None = None
    """The tokens that each would advertise, with commas."""
    engines: Seats | None = None
    """Its engines, each with its seats where it has more than one: `claude=2,codex`."""
    slots: Several = 1
    products: Listed | None = None
    """The products whose jobs it may take, with commas; without it, all."""
    repos: Listed | None = None
    """The repos that it would have, with commas."""
    clones: bool = True
    """Whether it may clone others."""
    minimum: Number = 0
    maximum: Number = 10
    warm: Number = 0
    """How many stand by, beside those that have something to do."""
    backlog: Several = 1
    """How many jobs may wait for each seat, as long as none is late."""

    def read(self, where: str = "") -> Shape:
        """The shape that is described.

        Raises Invalid.
        """
        capabilities = _split(self.capabilities)
        parse_advertised(capabilities, what=f"{where}the shape {self.name}")
        if self.minimum > self.maximum:
            wrong = f"is {self.minimum}, more than the maximum of {self.maximum}"
            raise Invalid("the query", [Fault(f"{where}minimum", wrong)])
        pairs = (each.partition("=") for each in _split(self.engines))
        return Shape(
            name=self.name,
            factories=self.factories or "",
            capabilities=capabilities,
            engines={name: int(seats or "1") for name, _, seats in pairs},
            slots=self.slots,
            products=_split(self.products) or ("*",),
            repos=_split(self.repos),
            may_clone=self.clones,
            minimum=self.minimum,
            maximum=self.maximum,
            warm=self.warm,
            backlog=self.backlog,
        )


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in (text or "").split(",") if part))


class DemandView(ResponseView, frozen=True, kw_only=True):
    """The jobs that ask for one thing."""

    product_id: str
    priority: Priority
    step: Step
    capabilities: tuple[str, ...]
    engine: str | None
    engine_class: str
    repo: str | None
    sandbox: str | None
    waiting: int
    """Could start now; none that is delayed, blocked, offered, or waits for a lock."""
    unserved: int
    """Those of them for which no seat is free, and another factory would help."""
    free: int
    """The free seats that fit; others may want them too."""
    running: int
    oldest_wait_sec: float | None
    target_wait_sec: float | None
    """How long a job should wait at most, where its product says so."""
    late: bool
    stopped: str | None
    """Why nothing of it begins just now: a halt, or a budget."""


class ShapeFactoryView(ResponseView, frozen=True, kw_only=True):
    """One factory of a shape."""

    id: str
    state: FactoryState
    jobs: int
    """What it runs and was offered."""
    enrolled_at: Timestamp
    lacks: tuple[str, ...]
    """What the shape promises, and this one does not advertise."""


class ScaleTargetView(ResponseView, frozen=True, kw_only=True):
    """How many factories of a shape are wanted, and why."""

    name: str
    wanted: int
    needed: int
    """Those of its factories that have something to do, or will."""
    more: int
    """Those that what waits needs beside them."""
    waiting: int
    """The jobs that were counted for this shape, and for no other of the query."""
    late: bool
    factories: tuple[ShapeFactoryView, ...]


class ScalingView(ResponseView, frozen=True, kw_only=True):
    """What waits, the most urgent first; and what that wants."""

    at: Timestamp
    classes: tuple[DemandView, ...]
    shapes: tuple[ScaleTargetView, ...]
    wanted: int | UnsetType = UNSET
    """Of all shapes together: with one shape, the number that an autoscaler reads."""
