"""Whether anybody could ever have run a job: the tokens that exist, existed, or come near."""

from collections.abc import Collection
from datetime import datetime, timedelta

from gigafactory.domain.fleet.fleet_state import FleetView
from gigafactory.domain.fleet.matching import choices, wanted_engine
from gigafactory.domain.job.job import Ask
from gigafactory.domain.manifest.capability import missing, nearest, satisfied
from gigafactory.domain.queue.queued_job import FACTORY_PREFIX, factories_in

_ENGINE_PREFIX = "engine:"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def unroutable(ask: Ask, fleet: FleetView) -> tuple[str, ...]:
    """Say why no factory that was ever enrolled could run this; nothing when one could.

    Factories that left count: where idle means none at all, the next one will be like the last.
    """
    offers = [pool.traits.tokens for pool in fleet.pools()] + list(fleet.former)
    if not offers:
        return ("no factory has enrolled yet",)
    needs = tuple(token for token in ask.needs if not token.startswith(FACTORY_PREFIX))
    suited = [tokens for tokens in offers if _has_engine(ask, tokens, fleet)]
    known = frozenset[str]().union(*offers)
    said = [*_absent(ask, fleet), *_unknown(needs, known)]
    if not suited:
        wanted = _ENGINE_PREFIX + (ask.engine or "")
        near = _near(wanted, {token for token in known if token.startswith(_ENGINE_PREFIX)})
        said.append(f"no factory has ever had the {wanted_engine(ask)}{near}")
    gaps = [missing(needs, tokens) for tokens in suited]
    if not said and all(gaps):
        fewest = min(gaps, key=lambda gap: (len(gap), gap))
        said.append(f"no factory has ever had all of it at once: one lacks {', '.join(fewest)}")
    return tuple(said)


def lacking(ask: Ask, fleet: FleetView, now: datetime) -> tuple[str, ...]:
    """Say which needed tokens no enrolled factory advertises any more, and who did last."""
    present = [pool.traits.tokens for pool in fleet.pools()]
    said = []
    for token in ask.needs:
        if token.startswith(FACTORY_PREFIX) or any(satisfied(token, have) for have in present):
            continue
        did = [who for tokens, who in fleet.former.items() if satisfied(token, tokens)]
        last = max(did, key=lambda who: (who[1], who[0]), default=None)
        memory = f"; {last[0]} did until {ago(now - last[1])}" if last is not None else ""
        said.append(f"no factory advertises {token}{memory}")
    return tuple(said)


def ago(passed: timedelta) -> str:
    """Say how long ago something was, in its largest unit."""
    return f"{span(passed)} ago"


def span(length: timedelta) -> str:
    """Say how long something lasts, in its largest unit."""
    seconds = max(0, int(length.total_seconds()))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _absent(ask: Ask, fleet: FleetView) -> list[str]:
    wanted = factories_in(ask.needs)
    if not wanted:
        return []
    known = {member.factory.id for member in fleet.members()}
    known |= {factory_id for factory_id, _ in fleet.former.values()}
    tokens = {FACTORY_PREFIX + factory_id for factory_id in known}
    return [
        f"there has never been a factory {factory_id}" + _near(FACTORY_PREFIX + factory_id, tokens)
        for factory_id in sorted(wanted - known)
    ]


def _unknown(needs: tuple[str, ...], known: frozenset[str]) -> list[str]:
    return [
        f"no factory has ever advertised {token}" + _near(token, known)
        for token in missing(needs, known)
    ]


def _has_engine(ask: Ask, tokens: frozenset[str], fleet: FleetView) -> bool:
    engines = sorted(
        token.removeprefix(_ENGINE_PREFIX) for token in tokens if token.startswith(_ENGINE_PREFIX)
    )
    return next(choices(ask, tuple(engines), fleet.classes), None) is not None


def _near(token: str, known: Collection[str]) -> str:
    found = nearest(token, known)
    return f"; the nearest known: {', '.join(found)}" if found else "; nothing like it is known"
