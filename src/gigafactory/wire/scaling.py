"""Records of demand and of scale targets."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
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
    """A machine shape: what each factory offers, and how many there may be."""

    name: Name = "shape"
    factories: Names | None = None
    """Name prefix of the shape's factories; busy ones count as wanted."""
    capabilities: Listed | None = None
    """Capability tokens of each, separated by commas."""
    engines: Seats | None = None
    """Engines, with seats if more than one: `claude=2,codex`."""
    slots: Several = 1
    products: Listed | None = None
    """Products it serves, separated by commas; default: all."""
    repos: Listed | None = None
    """Repos it has, separated by commas."""
    clones: bool = True
    """Whether it may clone other repos."""
    minimum: Number = 0
    maximum: Number = 10
    warm: Number = 0
    """Number of idle factories to keep in addition."""
    backlog: Several = 1
    """Jobs that may wait per seat while none is late."""

    @classmethod
    def from_domain(cls, shape: Shape) -> "ShapeDoc":
        """Return the wire record of a shape."""
        seats = (f"{name}={count}" for name, count in shape.engines.items())
        return cls(
            name=shape.name,
            factories=shape.factories or None,
            capabilities=",".join(shape.capabilities) or None,
            engines=",".join(seats) or None,
            slots=shape.slots,
            products=",".join(shape.products) or None,
            repos=",".join(shape.repos) or None,
            clones=shape.may_clone,
            minimum=shape.minimum,
            maximum=shape.maximum,
            warm=shape.warm,
            backlog=shape.backlog,
        )

    def to_domain(self, where: str = "") -> Shape:
        """Return the domain shape.

        Raises Invalid.
        """
        capabilities = _split(self.capabilities)
        parse_advertised(capabilities, subject=f"{where}the shape {self.name}")
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


class ScalingQuery(ShapeDoc, frozen=True, kw_only=True):
    """One shape as parameters, several as JSON, or none to get only the demand."""

    shapes: Annotated[str, Meta(min_length=2, max_length=50_000)] | None = None
    """Several shapes as a JSON list; a job counts for the first that can run it."""

    @classmethod
    def from_shapes(cls, shapes: Sequence[Shape]) -> "ScalingQuery":
        """Return the query that describes shapes."""
        docs = [ShapeDoc.from_domain(shape) for shape in shapes]
        return cls(shapes=msgspec.json.encode(docs).decode() if docs else None)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in (text or "").split(",") if part))


class DemandView(ResponseView, frozen=True, kw_only=True):
    """Demand of one job class."""

    product_id: str
    priority: Priority
    step: Step
    capabilities: tuple[str, ...]
    engine: str | None
    engine_class: str
    repo: str | None
    sandbox: str | None
    waiting: int
    """Jobs that could start now; excludes delayed, blocked, offered and locked jobs."""
    unserved: int
    """Waiting jobs without a free seat that another factory could run."""
    free: int
    """Matching free seats; other classes may compete for them."""
    running: int
    oldest_wait_sec: float | None
    target_wait_sec: float | None
    """Target wait of the product, if set."""
    late: bool
    stopped: str | None
    """Why none of these jobs start: a halt or a budget."""


class ShapeFactoryView(ResponseView, frozen=True, kw_only=True):
    """One factory of a shape."""

    id: str
    state: FactoryState
    jobs: int
    """Jobs it runs or was offered."""
    enrolled_at: Timestamp
    lacks: tuple[str, ...]
    """Capabilities of the shape that this factory does not advertise."""


class ScaleTargetView(ResponseView, frozen=True, kw_only=True):
    """Number of factories wanted for a shape, and why."""

    name: str
    wanted: int
    needed: int
    """Existing factories that have work or will get it."""
    more: int
    """Additional factories that the waiting jobs need."""
    waiting: int
    """Jobs counted for this shape and for no other."""
    late: bool
    factories: tuple[ShapeFactoryView, ...]


class ScalingView(ResponseView, frozen=True, kw_only=True):
    """Demand, most urgent first, and the factories wanted."""

    at: Timestamp
    classes: tuple[DemandView, ...]
    shapes: tuple[ScaleTargetView, ...]
    wanted: int | UnsetType = UNSET
    """Sum over all shapes, for autoscalers that read one number."""
