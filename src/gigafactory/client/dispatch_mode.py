"""The calls on ways of dispatch."""

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.dispatch_mode import DispatchedView, ShadowView


def shadow() -> Call[ShadowView]:
    """How products' jobs reach factories, and how the ways compare."""
    return Call(method="GET", path=path("shadow"), answer=ShadowView)


def turn(product_id: str, mode: str, *, force: bool = False) -> Call[DispatchedView]:
    """Set how a product's jobs reach factories."""
    told = {"mode": mode, "force": force}
    where = path("shadow", product_id)
    return Call(method="PUT", path=where, answer=DispatchedView, body=msgspec.json.encode(told))
