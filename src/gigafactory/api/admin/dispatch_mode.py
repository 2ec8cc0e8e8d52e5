"""Dispatch mode endpoints."""

from litestar import get, put
from litestar.types import ASGIApp

from gigafactory.api.admin.products import path_product
from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.coordinator.dispatch.dispatch_mode import ProductDispatch
from gigafactory.domain.tenancy.dispatch_mode import (
    AGREEMENT_MIN,
    COMPARISONS_MIN,
    ComparedPlacement,
    PlacementDifference,
    ShadowComparison,
)
from gigafactory.wire.dispatch_mode import (
    ComparisonView,
    DifferenceView,
    DispatchModeDoc,
    PlacingView,
    ProductDispatchView,
    ShadowView,
)
from gigafactory.wire.fields import timestamp

TAG = "Shadow"
DISPATCH = {
    "productId": "notes",
    "mode": "shadow",
    "comparison": {
        "since": NOON,
        "decisions": 412,
        "agreement": 0.9976,
        "agree": 411,
        "same": 380,
        "diverge": 1,
        "onlyShadow": 0,
        "onlyReal": 0,
        "conclusive": True,
        "differences": [
            {
                "jobId": JOB_ID,
                "outcome": "diverge",
                "at": NOON,
                "shadow": {"factoryId": "mac-1", "engine": "claude", "score": 4.1},
                "real": {"factoryId": "mac-2", "engine": "codex", "score": 3.2},
            }
        ],
    },
}


@get(
    "/shadow",
    opt=operation(
        TAG,
        responses={
            200: Body(
                of=ShadowView,
                example={
                    "decisionsNeeded": COMPARISONS_MIN,
                    "agreementNeeded": AGREEMENT_MIN,
                    "products": [DISPATCH],
                },
            )
        },
    ),
)
async def shadow(request: ApiRequest) -> ASGIApp:
    """Return the dispatch mode of each product and its shadow comparison.

    Covers the chosen product, or all products of the token.
    """
    caller = await request.caller()
    products = await request.coordinator.dispatch_control.show(caller)
    return json_response(
        ShadowView(
            decisions_needed=COMPARISONS_MIN,
            agreement_needed=AGREEMENT_MIN,
            products=tuple(_product_dispatch(each) for each in products),
        )
    )


@put(
    "/shadow/{product_id:str}",
    opt=operation(
        TAG,
        body=Body(of=DispatchModeDoc, example={"mode": "shadow"}),
        responses={200: Body(of=ProductDispatchView, example=DISPATCH)},
        errors=(404, 409),
    ),
)
async def put_shadow(request: ApiRequest) -> ASGIApp:
    """Set the dispatch mode of a product; `shadow` starts a new comparison.

    Switching to `push` requires enough agreeing shadow decisions, or `force`. Switch back to `pull`
    or `shadow` at any time.
    """
    caller = await request.caller("dispatch")
    doc = await request.json_body(DispatchModeDoc)
    dispatch = await request.coordinator.dispatch_control.set_mode(
        caller, path_product(request), doc.mode, force=doc.force
    )
    return json_response(_product_dispatch(dispatch))


def _product_dispatch(of: ProductDispatch) -> ProductDispatchView:
    comparison = of.comparison
    return ProductDispatchView(
        product_id=of.product_id,
        mode=of.mode,
        comparison=_comparison(comparison) if comparison is not None else None,
    )


def _comparison(of: ShadowComparison) -> ComparisonView:
    counts = of.counts
    return ComparisonView(
        since=timestamp(of.since),
        decisions=counts.decisions,
        agreement=round(counts.agreement, 6),
        agree=counts.agree,
        same=counts.same,
        diverge=counts.diverge,
        only_shadow=counts.only_shadow,
        only_real=counts.only_real,
        conclusive=of.is_conclusive,
        differences=tuple(_difference(each) for each in reversed(of.differences)),
    )


def _difference(of: PlacementDifference) -> DifferenceView:
    return DifferenceView(
        job_id=of.job_id,
        outcome=of.outcome,
        at=timestamp(of.at),
        shadow=_placement(of.shadow),
        real=_placement(of.real),
    )


def _placement(of: ComparedPlacement | None) -> PlacingView | None:
    if of is None:
        return None
    return PlacingView(factory_id=of.factory_id, engine=of.engine, score=of.score)


ROUTES = (shadow, put_shadow)
