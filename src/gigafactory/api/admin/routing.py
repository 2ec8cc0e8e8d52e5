"""Learned routing endpoints: recommendations, rollouts, evaluation."""

from litestar import get, put
from litestar.types import ASGIApp

from gigafactory.api.admin.products import path_product
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.domain.insights.confidence import Interval
from gigafactory.domain.insights.effect_estimate import EffectEstimate
from gigafactory.domain.insights.guardrail import TrialArm, judge
from gigafactory.domain.insights.off_policy import PolicyEstimate
from gigafactory.domain.insights.recommendation import Recommendation
from gigafactory.domain.insights.routing_rollout import RoutingRollout
from gigafactory.wire.fields import optional_timestamp, timestamp
from gigafactory.wire.routing import (
    ArmView,
    ChangeView,
    EstimateView,
    EvaluationView,
    GuardrailsView,
    IntervalView,
    RecommendationView,
    RolloutDoc,
    RolloutView,
    RoutingView,
    TrippedView,
)

TAG = "Routing"
SETTINGS = {"mode": "ab", "share": 0.5, "explore": 0.05}
ROLLOUT = SETTINGS | {
    "productId": "notes",
    "since": "2026-01-01T00:00:00.000Z",
    "by": "user:ann",
    "learned": {"tries": 64, "passes": 51, "priced": 64},
    "usual": {"tries": 60, "passes": 44, "priced": 60},
    "guardrails": {"success": 0.0, "cost": 0.12},
    "tripped": None,
}
RECOMMENDED = {
    "productId": "notes",
    "repo": "notes",
    "profile": "ux-designer",
    "engine": "claude",
    "factoryId": "mac-2",
    "tries": 64,
    "others": 180,
    "success": {"more": 0.03, "low": -0.02, "high": 0.08},
    "time": {"more": -0.23, "low": -0.35, "high": -0.09},
    "cost": {"more": -0.11, "low": -0.19, "high": -0.02},
    "told": "repo notes, profile ux-designer: claude on mac-2 ships 23 % faster (9-35 %) and is"
    " 11 % cheaper (2-19 %) than the present mix (n = 64, 95 % intervals)",
}


@get(
    "/routing",
    opt=operation(
        TAG,
        responses={
            200: Body(
                of=RoutingView,
                example={"tries": 244, "rollouts": [ROLLOUT], "recommendations": [RECOMMENDED]},
            )
        },
    ),
)
async def routing(request: ApiRequest) -> ASGIApp:
    """Return routing recommendations with their evidence, and the rollout of each product.

    Covers the chosen product, or all products of the token. Learned from the first attempts of jobs
    in the last six months.
    """
    caller = await request.caller()
    advice = await request.coordinator.routing.advise(caller)
    return json_response(
        RoutingView(
            tries=advice.tries,
            rollouts=tuple(render_rollout(each) for each in advice.rollouts),
            recommendations=tuple(_recommendation(each) for each in advice.recommended),
        )
    )


@get("/routing/eval", opt=operation(TAG, responses={200: Body(of=EvaluationView)}))
async def evaluation(request: ApiRequest) -> ASGIApp:
    """Evaluate learned routing offline against the default rules and the best single engine.

    Uses only exploring jobs, whose engine and factory were chosen at random. With too few of them
    the evaluation is inconclusive and says how many are needed.
    """
    caller = await request.caller()
    evaluated = await request.coordinator.routing.evaluate(caller)
    return json_response(
        EvaluationView(
            episodes=evaluated.episodes,
            estimates=tuple(_estimate(each) for each in evaluated.estimates),
            gain=_interval(evaluated.gain) if evaluated.gain is not None else None,
            concludes=evaluated.is_conclusive,
            told=evaluated.conclusion,
        )
    )


@put(
    "/routing/{product_id:str}",
    opt=operation(
        TAG,
        body=Body(of=RolloutDoc, example=SETTINGS),
        responses={200: Body(of=RolloutView, example=ROLLOUT)},
        errors=(404, 409),
    ),
)
async def put_routing(request: ApiRequest) -> ASGIApp:
    """Set the rollout of learned routing for a product; a new comparison starts.

    Use `off` to switch back; the learned model is kept.
    """
    caller = await request.caller("routing")
    doc = await request.json_body(RolloutDoc)
    rollout = await request.coordinator.routing.set_mode(
        caller, path_product(request), doc.mode, share=doc.share, explore=doc.explore
    )
    return json_response(render_rollout(rollout))


def render_rollout(of: RoutingRollout) -> RolloutView:
    """Render a rollout."""
    verdict, trip = judge(of.learned, of.usual), of.tripped
    return RolloutView(
        product_id=of.product_id,
        mode=of.mode,
        share=of.share,
        explore=of.explore,
        since=optional_timestamp(of.since),
        by=of.by,
        learned=_arm(of.learned),
        usual=_arm(of.usual),
        guardrails=GuardrailsView(success=verdict.success, cost=verdict.cost),
        tripped=None
        if trip is None
        else TrippedView(
            guardrail=trip.guardrail, mode=trip.mode, at=timestamp(trip.at), reason=trip.reason
        ),
    )


def _arm(arm: TrialArm) -> ArmView:
    return ArmView(tries=arm.tries, passes=arm.passes, priced=arm.priced)


def _recommendation(of: Recommendation) -> RecommendationView:
    return RecommendationView(
        product_id=of.product,
        repo=of.repo,
        profile=of.profile,
        engine=of.choice.engine,
        factory_id=of.choice.factory,
        tries=of.tries,
        others=of.others,
        success=_change(of.success),
        time=_change(of.time),
        cost=_change(of.cost) if of.cost is not None else None,
        told=of.sentence,
    )


def _estimate(of: PolicyEstimate) -> EstimateView:
    return EstimateView(
        policy=of.policy,
        matches=of.matches,
        ips=_interval(of.ips),
        snips=_interval(of.snips),
        doubly_robust=_interval(of.doubly_robust),
        seconds=of.seconds,
        cost_usd=of.cost_usd,
    )


def _interval(of: Interval) -> IntervalView:
    return IntervalView(share=of.share, low=of.low, high=of.high)


def _change(of: EffectEstimate) -> ChangeView:
    return ChangeView(more=of.more, low=of.low, high=of.high)


ROUTES = (routing, evaluation, put_routing)
