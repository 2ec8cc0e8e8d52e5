"""Call that autoscaling uses."""

from collections.abc import Sequence

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.wire.scaling import ScalingQuery, ScalingView


def scaling(shapes: Sequence[Shape] = ()) -> ApiCall[ScalingView]:
    """Return the demand and the number of factories wanted for each shape."""
    query = ScalingQuery.from_shapes(shapes)
    return ApiCall(method="GET", path=path("scaling"), response_type=ScalingView, query=query)
