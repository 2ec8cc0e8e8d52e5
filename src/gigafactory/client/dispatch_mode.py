"""The calls on ways of dispatch."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.dispatch_mode import ProductDispatchView, ShadowView


def shadow() -> ApiCall[ShadowView]:
    """How products' jobs reach factories, and how the ways compare."""
    return ApiCall(method="GET", path=path("shadow"), response_type=ShadowView)


def set_mode(product_id: str, mode: str, *, force: bool = False) -> ApiCall[ProductDispatchView]:
    """Set how a product's jobs reach factories."""
    told = {"mode": mode, "force": force}
    where = path("shadow", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=ProductDispatchView, body=msgspec.json.encode(told)
    )
