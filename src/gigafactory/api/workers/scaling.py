"""Autoscaling: what waits by what it asks for, and how many factories of a shape that wants."""

from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.types import ASGIApp
from msgspec import UNSET, Meta, UnsetType

from gigafactory.api.http.decoding import decoded
from gigafactory.api.http.examples import NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render.jobs import Moment, View, moment
from gigafactory.coordinator.fleet.scaling import Scale
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority, Step
from gigafactory.domain.manifest.capability import advertised
from gigafactory.domain.scaling.demand import Demand
from gigafactory.domain.scaling.wanted import Outlook, Shape, Sight, State

SHAPES_MAX = 100

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


class ShapeDoc(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
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
        advertised(capabilities, what=f"{where}the shape {self.name}")
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


class ScalingQuery(ShapeDoc, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One shape, described; or several, as JSON; or none, to see only what waits."""

    shapes: Annotated[str, Meta(min_length=2, max_length=50_000)] | None = None
    """Several shapes, in the order in which jobs are counted for them: a JSON list of objects."""

    def asked(self, *, described: bool) -> list[Shape]:
        """The shapes that are asked about; none where nothing describes one.

        Raises Invalid, Malformed.
        """
        if self.shapes is None:
            return [self.read()] if described else []
        if self != msgspec.structs.replace(ScalingQuery(), shapes=self.shapes):
            wrong = "describes several shapes; leave the other parameters away"
            raise Invalid("the query", [Fault("shapes", wrong)])
        told = decoded(self.shapes.encode(), _Shapes, "the query's shapes")
        return [doc.read(f"shapes[{number}].") for number, doc in enumerate(told)]


_Shapes: Any = Annotated[tuple[ShapeDoc, ...], Meta(max_length=SHAPES_MAX)]


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in (text or "").split(",") if part))


class DemandView(View, frozen=True, kw_only=True):
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


class SightView(View, frozen=True, kw_only=True):
    """One factory of a shape."""

    id: str
    state: State
    jobs: int
    """What it runs and was offered."""
    enrolled_at: Moment
    lacks: tuple[str, ...]
    """What the shape promises, and this one does not advertise."""


class OutlookView(View, frozen=True, kw_only=True):
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
    factories: list[SightView]


class ScalingView(View, frozen=True, kw_only=True):
    """What waits, the most urgent first; and what that wants."""

    at: Moment
    classes: list[DemandView]
    shapes: list[OutlookView]
    wanted: int | UnsetType = UNSET
    """Of all shapes together: with one shape, the number that an autoscaler reads."""


EXAMPLE = {
    "at": NOON,
    "classes": [
        {
            "productId": "notes",
            "priority": "medium",
            "step": "run",
            "capabilities": ["os:linux"],
            "engine": "claude",
            "engineClass": "agentic-coder",
            "repo": "notes",
            "sandbox": None,
            "waiting": 3,
            "unserved": 2,
            "free": 1,
            "running": 1,
            "oldestWaitSec": 12.5,
            "targetWaitSec": 300.0,
            "late": False,
            "stopped": None,
        }
    ],
    "shapes": [
        {
            "name": "linux",
            "wanted": 3,
            "needed": 2,
            "more": 1,
            "waiting": 2,
            "late": False,
            "factories": [
                {
                    "id": "keda.linux.a",
                    "state": "busy",
                    "jobs": 1,
                    "enrolledAt": NOON,
                    "lacks": [],
                }
            ],
        }
    ],
    "wanted": 3,
}


@get(
    "/scaling",
    opt=operation("Fleet", query=ScalingQuery, gives={200: Body(of=ScalingView, example=EXAMPLE)}),
)
async def scaling(request: Call) -> ASGIApp:
    """Tell what waits by what it asks for and, of a shape that is described, how many are wanted.

    Of the chosen product, or of all that the token covers. A job counts for the first shape that
    can run it, and only where no free seat will have it anyway. `wanted` is the number of factories
    that there should be, those that work included.
    """
    caller = await request.caller()
    asked = request.query(ScalingQuery)
    shapes = asked.asked(described=bool(request.scope["query_string"]))
    told = request.coordinator.scaling.look(caller, shapes)
    return answer(_scaling(told, asked=bool(shapes)))


def _scaling(told: Scale, *, asked: bool) -> ScalingView:
    return ScalingView(
        at=moment(told.at),
        classes=[_demand(one) for one in told.survey.demands],
        shapes=[_outlook(one) for one in told.outlooks],
        wanted=sum(one.wanted for one in told.outlooks) if asked else UNSET,
    )


def _demand(of: Demand) -> DemandView:
    ask = of.kind.ask
    return DemandView(
        product_id=of.kind.product_id,
        priority=of.kind.priority,
        step=of.kind.step,
        capabilities=ask.needs,
        engine=ask.engine,
        engine_class=ask.engine_class,
        repo=ask.repo,
        sandbox=ask.sandbox,
        waiting=of.waiting,
        unserved=of.unserved,
        free=of.free,
        running=of.running,
        oldest_wait_sec=None if of.oldest_s is None else round(of.oldest_s, 3),
        target_wait_sec=of.target_s,
        late=of.late,
        stopped=of.stopped,
    )


def _outlook(of: Outlook) -> OutlookView:
    return OutlookView(
        name=of.shape.name,
        wanted=of.wanted,
        needed=of.needed,
        more=of.more,
        waiting=of.waiting,
        late=of.late,
        factories=[_sight(one) for one in of.factories],
    )


def _sight(of: Sight) -> SightView:
    return SightView(
        id=of.id,
        state=of.state,
        jobs=of.jobs,
        enrolled_at=moment(of.enrolled_at),
        lacks=of.lacks,
    )


ROUTES = (scaling,)
