"""Ways of dispatch: how products' jobs reach factories, and how the ways compare."""

from litestar import get, put
from litestar.types import ASGIApp

from gigafactory.api.admin.products import named_product
from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render.jobs import Moment, View, moment
from gigafactory.api.workers.reports import Sent
from gigafactory.coordinator.dispatch.dispatch_mode import Dispatched
from gigafactory.domain.tenancy.dispatch_mode import (
    AGREEMENT_MIN,
    ENOUGH,
    Comparison,
    Difference,
    Outcome,
    Placing,
    Way,
)

TAG = "Shadow"
SHOWN = {
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


class PlacingView(View, frozen=True, kw_only=True):
    """One job on one factory, and how good that was when it was decided."""

    factory_id: str
    engine: str | None
    score: float


class DifferenceView(View, frozen=True, kw_only=True):
    """A decision in shadow that did not agree with what really happened."""

    job_id: str
    outcome: Outcome
    at: Moment
    shadow: PlacingView | None
    """Where the dispatcher would have had it; null: nowhere."""
    real: PlacingView | None
    """Who asked for it and got it; null: nobody in time."""


class ComparisonView(View, frozen=True, kw_only=True):
    """What a product's last time in shadow came to so far."""

    since: Moment
    decisions: int
    agreement: float
    """The share that agrees, 0 to 1."""
    agree: int
    """The same factory with the same engine, or one as good by the same score."""
    same: int
    """Of those that agree: the very same factory."""
    diverge: int
    only_shadow: int
    """It would have offered the job, and nobody asked for it in time."""
    only_real: int
    """Somebody got the job, and it had offered it to nobody."""
    conclusive: bool
    """Whether it lets the dispatcher take over."""
    differences: list[DifferenceView]
    """The newest, the last one first."""


class DispatchedView(View, frozen=True, kw_only=True):
    """How a product's jobs reach factories."""

    product_id: str
    mode: Way
    """`push`: offered; `pull`: asked for; `shadow`: asked for, and offers are only compared."""
    comparison: ComparisonView | None


class ShadowView(View, frozen=True, kw_only=True):
    """Every product, and what it takes for the dispatcher to take over."""

    decisions_needed: int
    agreement_needed: float
    products: list[DispatchedView]


@get(
    "/shadow",
    opt=operation(
        TAG,
        gives={
            200: Body(
                of=ShadowView,
                example={
                    "decisionsNeeded": ENOUGH,
                    "agreementNeeded": AGREEMENT_MIN,
                    "products": [SHOWN],
                },
            )
        },
    ),
)
async def shadow(request: Call) -> ASGIApp:
    """Show how products' jobs reach factories, and how the dispatcher in shadow compares.

    Of the chosen product, or of all that the token covers.
    """
    caller = await request.caller()
    found = await request.coordinator.dispatching.show(caller)
    return answer(
        ShadowView(
            decisions_needed=ENOUGH,
            agreement_needed=AGREEMENT_MIN,
            products=[_dispatched(each) for each in found],
        )
    )


class WayDoc(Sent, frozen=True, kw_only=True):
    """How a product's jobs shall reach factories."""

    mode: Way
    force: bool = False
    """Whether the dispatcher takes over although it was not seen to decide as well."""


@put(
    "/shadow/{product_id:str}",
    opt=operation(
        TAG,
        takes=Body(of=WayDoc, example={"mode": "shadow"}),
        gives={200: Body(of=DispatchedView, example=SHOWN)},
        refuses=(404, 409),
    ),
)
async def put_shadow(request: Call) -> ASGIApp:
    """Set how a product's jobs reach factories; `shadow` begins a new comparison.

    `push` from another mode asks for enough decisions in shadow that agree, unless it is forced.
    Going back is the same call with `pull` or `shadow`, at any time.
    """
    caller = await request.caller()
    asked = await request.decoded(WayDoc)
    turned = await request.coordinator.dispatching.turn(
        caller, named_product(request), asked.mode, force=asked.force
    )
    return answer(_dispatched(turned))


def _dispatched(of: Dispatched) -> DispatchedView:
    known = of.comparison
    return DispatchedView(
        product_id=of.product_id,
        mode=of.way,
        comparison=_comparison(known) if known is not None else None,
    )


def _comparison(of: Comparison) -> ComparisonView:
    counts = of.counts
    return ComparisonView(
        since=moment(of.since),
        decisions=counts.decisions,
        agreement=round(counts.agreement, 6),
        agree=counts.agree,
        same=counts.same,
        diverge=counts.diverge,
        only_shadow=counts.only_shadow,
        only_real=counts.only_real,
        conclusive=of.conclusive,
        differences=[_difference(each) for each in reversed(of.differences)],
    )


def _difference(of: Difference) -> DifferenceView:
    return DifferenceView(
        job_id=of.job_id,
        outcome=of.outcome,
        at=moment(of.at),
        shadow=_placing(of.shadow),
        real=_placing(of.real),
    )


def _placing(of: Placing | None) -> PlacingView | None:
    if of is None:
        return None
    return PlacingView(factory_id=of.factory_id, engine=of.engine, score=of.score)


ROUTES = (shadow, put_shadow)
