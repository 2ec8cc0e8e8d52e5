"""Unroutable jobs: why no present or past factory could run a job, with the nearest tokens."""

from collections.abc import Collection
from datetime import datetime

from gigafactory.domain.elapsed import format_ago
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import describe_engine, engine_choices
from gigafactory.domain.job.job import Ask
from gigafactory.domain.manifest.capability import meets, missing_requirements, similar_tokens
from gigafactory.domain.queue.queued_job import FACTORY_PREFIX, factories_in

_ENGINE_PREFIX = "engine:"


def unroutable_reasons(ask: Ask, fleet: FleetState) -> tuple[str, ...]:
    """Return why no factory ever enrolled could run this; empty when one could.

    Past factories count: an autoscaled fleet may be at zero, and the next factory is like the last.
    """
    offers = [pool.traits.tokens for pool in fleet.pools()] + list(fleet.past_capabilities)
    if not offers:
        return ("no factory has enrolled yet",)
    needs = tuple(token for token in ask.needs if not token.startswith(FACTORY_PREFIX))
    suited = [tokens for tokens in offers if _has_engine(ask, tokens, fleet)]
    known = frozenset[str]().union(*offers)
    reasons = [*_unknown_factories(ask, fleet), *_unknown_tokens(needs, known)]
    if not suited:
        wanted = _ENGINE_PREFIX + (ask.engine or "")
        near = _near(wanted, {token for token in known if token.startswith(_ENGINE_PREFIX)})
        reasons.append(f"no factory has ever had the {describe_engine(ask)}{near}")
    gaps = [missing_requirements(needs, tokens) for tokens in suited]
    if not reasons and all(gaps):
        fewest = min(gaps, key=lambda gap: (len(gap), gap))
        reasons.append(
            "no factory has ever had all needed tokens at once: the closest one lacks"
            f" {', '.join(fewest)}"
        )
    return tuple(reasons)


def missing_capabilities(ask: Ask, fleet: FleetState, now: datetime) -> tuple[str, ...]:
    """Return which needed tokens no enrolled factory advertises, and which factory did last."""
    present = [pool.traits.tokens for pool in fleet.pools()]
    reasons = []
    for token in ask.needs:
        if token.startswith(FACTORY_PREFIX) or any(meets(token, have) for have in present):
            continue
        did = [who for tokens, who in fleet.past_capabilities.items() if meets(token, tokens)]
        last = max(did, key=lambda who: (who[1], who[0]), default=None)
        memory = f"; {last[0]} did until {format_ago(now - last[1])}" if last is not None else ""
        reasons.append(f"no factory advertises {token}{memory}")
    return tuple(reasons)


def _unknown_factories(ask: Ask, fleet: FleetState) -> list[str]:
    wanted = factories_in(ask.needs)
    if not wanted:
        return []
    known = {member.factory.id for member in fleet.members()}
    known |= {factory_id for factory_id, _ in fleet.past_capabilities.values()}
    tokens = {FACTORY_PREFIX + factory_id for factory_id in known}
    return [
        f"there has never been a factory {factory_id}" + _near(FACTORY_PREFIX + factory_id, tokens)
        for factory_id in sorted(wanted - known)
    ]


def _unknown_tokens(needs: tuple[str, ...], known: frozenset[str]) -> list[str]:
    return [
        f"no factory has ever advertised {token}" + _near(token, known)
        for token in missing_requirements(needs, known)
    ]


def _has_engine(ask: Ask, tokens: frozenset[str], fleet: FleetState) -> bool:
    engines = sorted(
        token.removeprefix(_ENGINE_PREFIX) for token in tokens if token.startswith(_ENGINE_PREFIX)
    )
    return next(engine_choices(ask, tuple(engines), fleet.classes), None) is not None


def _near(token: str, known: Collection[str]) -> str:
    found = similar_tokens(token, known)
    return f"; nearest known: {', '.join(found)}" if found else "; no similar token is known"
