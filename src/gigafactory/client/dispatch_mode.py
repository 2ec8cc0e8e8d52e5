"""Calls on dispatch modes."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.dispatch_mode import ProductDispatchView, ShadowView


def shadow() -> ApiCall[ShadowView]:
    """Return the dispatch mode of each product and its shadow comparison."""
    return ApiCall(method="GET", path=path("shadow"), response_type=ShadowView)


def set_mode(product_id: str, mode: str, *, force: bool = False) -> ApiCall[ProductDispatchView]:
    """Set the dispatch mode of a product."""
    doc = {"mode": mode, "force": force}
    where = path("shadow", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=ProductDispatchView, body=msgspec.json.encode(doc)
    )
