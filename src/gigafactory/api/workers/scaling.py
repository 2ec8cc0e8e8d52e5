"""Scaling endpoint: demand, and number of factories wanted by shape."""

from typing import Annotated, Any

from litestar import get
from litestar.types import ASGIApp
from msgspec import UNSET, Meta

from gigafactory.api.http.decoding import decode_json
from gigafactory.api.http.examples import NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.coordinator.fleet.scaling import ScalingSnapshot
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.scaling.demand import Demand
from gigafactory.domain.scaling.scale_target import ScaleTarget, Shape, ShapeFactory
from gigafactory.wire.fields import timestamp
from gigafactory.wire.scaling import (
    DemandView,
    ScaleTargetView,
    ScalingQuery,
    ScalingView,
    ShapeDoc,
    ShapeFactoryView,
)

SHAPES_MAX = 100
_Shapes: Any = Annotated[tuple[ShapeDoc, ...], Meta(max_length=SHAPES_MAX)]
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
    opt=operation(
        "Fleet", query=ScalingQuery, responses={200: Body(of=ScalingView, example=EXAMPLE)}
    ),
)
async def scaling(request: ApiRequest) -> ASGIApp:
    """Return the demand by job class and the number of factories wanted for each shape.

    Covers the chosen product, or all products of the token. A job counts for the first shape that
    can run it, unless a free seat will take it. `wanted` is the target number of factories,
    including busy ones.
    """
    caller = await request.caller()
    query = request.query(ScalingQuery)
    shapes = parse_shapes(query) if request.scope["query_string"] else []
    snapshot = request.coordinator.scaling.snapshot(caller, shapes)
    return json_response(_scaling(snapshot, with_total=bool(shapes)))


def parse_shapes(query: ScalingQuery) -> list[Shape]:
    """Return the shapes that a query describes: one as parameters, or several as JSON.

    Raises Invalid, Malformed.
    """
    if query.shapes is None:
        return [query.to_domain()]
    if query != ScalingQuery(shapes=query.shapes):
        wrong = "describes several shapes; remove the other parameters"
        raise Invalid("the query", [Fault("shapes", wrong)])
    docs = decode_json(query.shapes.encode(), _Shapes, "the query's shapes")
    return [doc.to_domain(f"shapes[{number}].") for number, doc in enumerate(docs)]


def _scaling(of: ScalingSnapshot, *, with_total: bool) -> ScalingView:
    return ScalingView(
        at=timestamp(of.at),
        classes=tuple(_demand(one) for one in of.survey.demands),
        shapes=tuple(_scale_target(one) for one in of.outlooks),
        wanted=sum(one.wanted for one in of.outlooks) if with_total else UNSET,
    )


def _demand(of: Demand) -> DemandView:
    ask = of.job_class.ask
    return DemandView(
        product_id=of.job_class.product_id,
        priority=of.job_class.priority,
        step=of.job_class.step,
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
        late=of.is_late,
        stopped=of.stopped,
    )


def _scale_target(of: ScaleTarget) -> ScaleTargetView:
    return ScaleTargetView(
        name=of.shape.name,
        wanted=of.wanted,
        needed=of.needed,
        more=of.more,
        waiting=of.waiting,
        late=of.late,
        factories=tuple(_shape_factory(one) for one in of.factories),
    )


def _shape_factory(of: ShapeFactory) -> ShapeFactoryView:
    return ShapeFactoryView(
        id=of.id,
        state=of.state,
        jobs=of.jobs,
        enrolled_at=timestamp(of.enrolled_at),
        lacks=of.lacks,
    )


ROUTES = (scaling,)
