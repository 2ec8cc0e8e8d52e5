"""Whether factories of a shape could run jobs of a class at all, and how well."""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.job import Ask, Step
from gigafactory.domain.manifest.capability import missing, satisfied
from gigafactory.domain.manifest.engine_ref import CLASSES, engines_for, program
from gigafactory.domain.manifest.manifest import EngineClass, Manifest
from gigafactory.domain.queue.queued_job import FACTORY_PREFIX, JobClass

SPECIAL_KEYS = frozenset({"has", "cred"})
"""The keys whose tokens name equipment; a token without a value, such as `gpu`, does too."""

SANDBOX_PREFIX = "sandbox:"
SANDBOX_BROKEN = "sandbox:broken"
"""Of a factory that has a sandbox, which lets through what it must not."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """All of a factory that decides what it could run: those with equal traits are of one shape."""

    tokens: frozenset[str]
    engines: tuple[str, ...]
    products: tuple[str, ...]
    repos: frozenset[str]
    may_clone: bool
    cost_class: int
    draining: bool
    streaming: bool
    """Whether offers reach it; not a matter of what it can run, but of who can be asked."""

    @staticmethod
    def of(factory: Factory) -> "Traits":
        """Read the traits of a factory."""
        return Traits(
            # Its own name would make every factory a shape of its own.
            tokens=factory.tokens - {FACTORY_PREFIX + factory.id},
            engines=tuple(sorted(factory.engines)),
            products=tuple(sorted(factory.products)),
            repos=frozenset(factory.repos),
            may_clone=factory.may_clone,
            cost_class=factory.cost_class,
            draining=factory.draining,
            streaming=factory.streaming is not None,
        )

    def admits(self, product_id: str) -> bool:
        """Whether the scope of its token covers this product."""
        return "*" in self.products or product_id in self.products


class Rejection(msgspec.Struct, frozen=True):
    """Why a factory is no candidate: a stable code, and a sentence about `it` for people."""

    code: str
    message: str


class EngineChoice(msgspec.Struct, frozen=True):
    """One engine that a job may have on a factory."""

    engine: str | None
    """As the job names it; None for the ship step, which needs none."""
    seats: str | None
    """The name that its seats are counted by."""
    index: int
    """Its place among the engines of the shape; -1 without an engine."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a shape suits a class, as far as that holds for every job and factory of the two."""

    engines: tuple[EngineChoice, ...]
    """In the order in which the job would have them."""
    matched: tuple[str, ...]
    capability: float
    prefers_met: int
    warm: bool


NO_ENGINE = (EngineChoice(None, None, -1),)


def match(  # noqa: PLR0911 - a return for each way in which they do not fit
    job_class: JobClass,
    traits: Traits,
    common: frozenset[str] = frozenset(),
    classes: Mapping[str, EngineClass] = CLASSES,
) -> Fit | Rejection:
    """Tell how factories of a shape suit jobs of a class, or why they can never have one.

    Whether the job requires one of them by name is for `JobClass.allows` to say. `common` is what
    every factory has, which ties nothing up.
    """
    if not traits.admits(job_class.product_id):
        return Rejection("product", f"its token does not admit product {job_class.product_id}")
    ask, runs = job_class.ask, job_class.step is Step.RUN
    needs = tuple(_unnamed(ask.needs)) if runs else ()
    if lacking := missing(needs, traits.tokens):
        return Rejection("capability", "it lacks " + ", ".join(lacking))
    if runs and (loose := unconfined(ask, traits.tokens)):
        return Rejection("sandbox", loose)
    if ask.repo is not None and ask.repo not in traits.repos and not traits.may_clone:
        return Rejection("repo", f"it has no checkout of {ask.repo} and may not clone")
    engines = tuple(choices(ask, traits.engines, classes)) if runs else NO_ENGINE
    if not engines:
        return Rejection("engine", f"it has no {wanted_engine(ask)}")
    if traits.draining:
        return Rejection("draining", "it is draining")
    return Fit(
        engines=engines,
        matched=ask.needs if runs else (),
        capability=capability_fit(needs, traits.tokens - common),
        prefers_met=sum(satisfied(token, traits.tokens) for token in _unnamed(ask.prefers)),
        warm=ask.repo in traits.repos,
    )


def unconfined(ask: Ask, tokens: frozenset[str]) -> str | None:
    """Say why a factory cannot keep a run as it must be; one that does not tell is believed."""
    told = any(token.startswith(SANDBOX_PREFIX) for token in tokens)
    if told and ask.sandbox is not None and SANDBOX_PREFIX + ask.sandbox not in tokens:
        return f"it cannot keep a run in the sandbox {ask.sandbox}"
    if ask.yolo and SANDBOX_BROKEN in tokens:
        return "its sandbox does not hold, so it takes no yolo job"
    return None


def choices(
    ask: Ask, present: tuple[str, ...], classes: Mapping[str, EngineClass] = CLASSES
) -> Iterator[EngineChoice]:
    """Give the engines among the present ones that a job may have, the most wanted first."""
    wanted = Manifest(
        engine=ask.engine,
        engine_class=cast("EngineClass", ask.engine_class),
        prefers_engine=ask.prefers_engine,
    )
    for engine in engines_for(wanted, present, classes):
        seats = program(engine)
        yield EngineChoice(engine, seats, present.index(seats))


def wanted_engine(ask: Ask) -> str:
    """Say which engine a job needs, for people."""
    return f"engine {ask.engine}" if ask.engine is not None else f"{ask.engine_class} engine"


def capability_fit(needs: tuple[str, ...], tokens: frozenset[str]) -> float:
    """From 0 to 1: 1 when all special equipment is needed, less the more of it would be tied up."""
    special = [token for token in tokens if _is_special(token)]
    needed = sum(any(satisfied(need, frozenset({token})) for need in needs) for token in special)
    return (1 + needed) / (1 + len(special))


def _is_special(token: str) -> bool:
    key, colon, _ = token.partition(":")
    return not colon or key in SPECIAL_KEYS


def _unnamed(tokens: tuple[str, ...]) -> Iterator[str]:
    return (token for token in tokens if not token.startswith(FACTORY_PREFIX))
