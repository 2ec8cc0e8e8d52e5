"""The call that autoscaling goes by."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.domain.job.job import Priority, Step
from gigafactory.domain.scaling.scale_target import Shape, ShapeFactory
from gigafactory.wire.answers import Answer


class Demand(Answer, frozen=True):
    """The jobs that ask for one thing."""

    product_id: str
    priority: Priority
    step: Step
    capabilities: tuple[str, ...]
    engine: str | None
    engine_class: str
    repo: str | None
    waiting: int
    unserved: int
    free: int
    running: int
    oldest_wait_sec: float | None
    target_wait_sec: float | None
    late: bool
    stopped: str | None


class Outlook(Answer, frozen=True):
    """How many factories of a shape are wanted, and why."""

    name: str
    wanted: int
    needed: int
    more: int
    waiting: int
    late: bool
    factories: tuple[ShapeFactory, ...]


class Scaling(Answer, frozen=True):
    """What waits, the most urgent first; and what that wants."""

    at: datetime
    classes: tuple[Demand, ...]
    shapes: tuple[Outlook, ...]


def scaling(shapes: Sequence[Shape] = ()) -> Call[Scaling]:
    """What waits, and how many factories of these shapes are wanted."""
    told = [_described(shape) for shape in shapes]
    query = {"shapes": msgspec.json.encode(told).decode() if told else None}
    return Call(method="GET", path=path("scaling"), answer=Scaling, query=query)


def _described(shape: Shape) -> dict[str, object]:
    seats = (f"{name}={count}" for name, count in shape.engines.items())
    told = {
        "name": shape.name,
        "factories": shape.factories,
        "capabilities": ",".join(shape.capabilities),
        "engines": ",".join(seats),
        "slots": shape.slots,
        "products": ",".join(shape.products),
        "repos": ",".join(shape.repos),
        "clones": shape.may_clone,
        "minimum": shape.minimum,
        "maximum": shape.maximum,
        "warm": shape.warm,
        "backlog": shape.backlog,
    }
    return {name: value for name, value in told.items() if value != ""}
