"""Unroutable jobs: why no present or past factory could run a job, with the nearest tokens."""

from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import zip_longest

from gigafactory.domain.elapsed import format_ago
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import describe_engine, engine_choices, sandbox_gap
from gigafactory.domain.job.job import Ask
from gigafactory.domain.manifest.capability import meets, missing_requirements, similar_tokens
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.domain.queue.queued_job import FACTORY_PREFIX, factories_in

_ENGINE_PREFIX = "engine:"
_REPO_PREFIX = "repo:"
SUGGESTIONS_MAX = 10
"""Unknown tokens with similar ones beside them: each search takes milliseconds."""


def unroutable_reasons(ask: Ask, product_id: str, fleet: FleetState) -> tuple[str, ...]:
    """Return why no factory that ever served the product could run this; empty when one could.

    Past factories count: an autoscaled fleet may be at zero, and the next factory is like the last.
    Factories of other products are neither counted nor named.
    """
    offers = [*_offers(product_id, fleet)]
    if not offers:
        return (f"no factory has enrolled yet for product {product_id}",)
    needs = _needs(ask)
    suited = [tokens for tokens in offers if _has_engine(ask, tokens, fleet)]
    offered_tokens = frozenset[str]().union(*offers)
    reasons = [*_unknown_factories(ask, product_id, fleet)]
    if unknown := missing_requirements(needs, offered_tokens):
        own = _own_tokens(offered_tokens, product_id, fleet)
        near = [_near(token, own) for token in unknown[:SUGGESTIONS_MAX]]
        reasons += [
            f"no factory has ever advertised {token}{said}"
            for token, said in zip_longest(unknown, near, fillvalue="")
        ]
    if not suited:
        wanted = _ENGINE_PREFIX + (ask.engine or "")
        said = _near(
            wanted, {token for token in offered_tokens if token.startswith(_ENGINE_PREFIX)}
        )
        reasons.append(f"no factory has ever had the {describe_engine(ask)}{said}")
    gaps = [missing_requirements(needs, tokens) for tokens in suited]
    if not reasons and all(gaps):
        fewest = min(gaps, key=lambda gap: (len(gap), gap))
        reasons.append(
            "no factory has ever had all needed tokens at once: the closest one lacks"
            f" {', '.join(fewest)}"
        )
    able = [tokens for tokens, gap in zip(suited, gaps, strict=True) if not gap]
    refusals = [why for tokens in able if (why := sandbox_gap(ask, tokens)) is not None]
    if not reasons and len(refusals) == len(able):
        reasons.append(f"each factory that could run it refuses it: {refusals[0]}")
    return tuple(reasons)


def is_unroutable(ask: Ask, product_id: str, fleet: FleetState) -> bool:
    """Return whether there are `unroutable_reasons`, at a fraction of their cost."""
    needs = _needs(ask)
    return bool(_unknown_ids(ask, product_id, fleet)) or not any(
        all(meets(token, tokens) for token in needs)
        and _has_engine(ask, tokens, fleet)
        and sandbox_gap(ask, tokens) is None
        for tokens in _offers(product_id, fleet)
    )


def missing_capabilities(
    ask: Ask, product_id: str, fleet: FleetState, now: datetime
) -> tuple[str, ...]:
    """Return which needed tokens no factory of the product advertises, and which one did last."""
    present = [*_present_tokens(product_id, fleet)]
    past = [
        (past_set.tokens, who)
        for past_set, who in fleet.past_capabilities.items()
        if past_set.admits(product_id)
    ]
    reasons = []
    for token in ask.needs:
        if token.startswith(FACTORY_PREFIX) or any(meets(token, have) for have in present):
            continue
        holders = [who for tokens, who in past if meets(token, tokens)]
        last = max(holders, key=lambda who: (who[1], who[0]), default=None)
        memory = f"; {last[0]} did until {format_ago(now - last[1])}" if last is not None else ""
        reasons.append(f"no factory advertises {token}{memory}")
    return tuple(reasons)


def _needs(ask: Ask) -> tuple[str, ...]:
    return tuple(token for token in ask.needs if not token.startswith(FACTORY_PREFIX))


def _offers(product_id: str, fleet: FleetState) -> Iterator[frozenset[str]]:
    """Yield the tokens of each present and past factory of the product."""
    yield from _present_tokens(product_id, fleet)
    yield from (had.tokens for had in fleet.past_capabilities if had.admits(product_id))


def _present_tokens(product_id: str, fleet: FleetState) -> Iterator[frozenset[str]]:
    return (pool.traits.tokens for pool in fleet.pools() if pool.traits.admits(product_id))


def _own_tokens(known: frozenset[str], product_id: str, fleet: FleetState) -> frozenset[str]:
    """Return the tokens that may be suggested: a shared factory also has the repos of others."""
    owned = {_REPO_PREFIX + repo_name(repo) for repo in fleet.product(product_id).repos}
    return frozenset(token for token in known if not token.startswith(_REPO_PREFIX)) | (
        known & owned
    )


def _unknown_factories(ask: Ask, product_id: str, fleet: FleetState) -> list[str]:
    unknown = sorted(_unknown_ids(ask, product_id, fleet))
    if not unknown:
        return []
    tokens = {FACTORY_PREFIX + factory_id for factory_id in _known_ids(product_id, fleet)}
    near = [_near(FACTORY_PREFIX + factory_id, tokens) for factory_id in unknown[:SUGGESTIONS_MAX]]
    return [
        f"there has never been a factory {factory_id}{said}"
        for factory_id, said in zip_longest(unknown, near, fillvalue="")
    ]


def _unknown_ids(ask: Ask, product_id: str, fleet: FleetState) -> frozenset[str]:
    wanted = factories_in(ask.needs)
    return wanted - _known_ids(product_id, fleet) if wanted else wanted


def _known_ids(product_id: str, fleet: FleetState) -> set[str]:
    known = {m.factory.id for m in fleet.members() if m.pool.traits.admits(product_id)}
    past = fleet.past_capabilities.items()
    return known | {who for had, (who, _) in past if had.admits(product_id)}


def _has_engine(ask: Ask, tokens: frozenset[str], fleet: FleetState) -> bool:
    engines = sorted(
        token.removeprefix(_ENGINE_PREFIX) for token in tokens if token.startswith(_ENGINE_PREFIX)
    )
    return next(engine_choices(ask, tuple(engines), fleet.classes), None) is not None


def _near(token: str, known: Collection[str]) -> str:
    similar = similar_tokens(token, known)
    return f"; nearest known: {', '.join(similar)}" if similar else "; no similar token is known"
