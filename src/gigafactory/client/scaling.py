"""Call that autoscaling uses."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.wire.scaling import ScalingView


def scaling(shapes: Sequence[Shape] = ()) -> ApiCall[ScalingView]:
    """Return the demand and the number of factories wanted for each shape."""
    docs = [_shape_to_json(shape) for shape in shapes]
    query = {"shapes": msgspec.json.encode(docs).decode() if docs else None}
    return ApiCall(method="GET", path=path("scaling"), response_type=ScalingView, query=query)


def _shape_to_json(shape: Shape) -> dict[str, object]:
    seats = (f"{name}={count}" for name, count in shape.engines.items())
    doc = {
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
    return {name: value for name, value in doc.items() if value != ""}
