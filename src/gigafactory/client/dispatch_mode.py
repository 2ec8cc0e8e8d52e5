"""Calls on dispatch modes."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.wire.dispatch_mode import DispatchModeDoc, ProductDispatchView, ShadowView


def shadow() -> ApiCall[ShadowView]:
    """Return the dispatch mode of each product and its shadow comparison."""
    return ApiCall(method="GET", path=path("shadow"), response_type=ShadowView)


def set_mode(
    product_id: str, mode: DispatchMode, *, force: bool = False
) -> ApiCall[ProductDispatchView]:
    """Set the dispatch mode of a product."""
    doc = DispatchModeDoc(mode=mode, force=force)
    where = path("shadow", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=ProductDispatchView, body=msgspec.json.encode(doc)
    )
