"""Match job classes with factory traits: whether a factory could run a job, and how well."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.job import Ask, Step
from gigafactory.domain.manifest.capability import meets, missing_requirements
from gigafactory.domain.manifest.engine_ref import ENGINE_CLASSES, base_engine, eligible_engines
from gigafactory.domain.manifest.manifest import EngineClass, Manifest
from gigafactory.domain.queue.queued_job import FACTORY_PREFIX, JobClass

SPECIAL_KEYS = frozenset({"has", "cred"})
"""Keys of tokens that name equipment, as do tokens without a value, such as `gpu`."""

SANDBOX_PREFIX = "sandbox:"
SANDBOX_BROKEN = "sandbox:broken"
"""Advertised by a factory without a working sandbox: it takes no yolo jobs."""


class FactoryTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that decide which jobs a factory could run; equal traits share a pool."""

    tokens: frozenset[str]
    engines: tuple[str, ...]
    products: tuple[str, ...]
    repos: frozenset[str]
    may_clone: bool
    cost_class: int
    draining: bool
    streaming: bool
    """Whether it has an offer stream, so that jobs can be offered to it."""

    @staticmethod
    def of(factory: Factory) -> "FactoryTraits":
        """Return the traits of a factory."""
        return FactoryTraits(
            # With its own id, every factory would have a pool of its own.
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
        """Return whether the scope of its token covers this product."""
        return "*" in self.products or product_id in self.products


class PastCapabilities(NamedTuple):
    """The tokens that a factory advertised once, and the products that it served then."""

    tokens: frozenset[str]
    products: tuple[str, ...]

    def admits(self, product_id: str) -> bool:
        """Return whether the scope of its token covered this product."""
        return "*" in self.products or product_id in self.products


class Rejection(msgspec.Struct, frozen=True):
    """Why a factory is no candidate: a stable code, and a message whose subject is `it`."""

    code: str
    message: str


class EngineChoice(msgspec.Struct, frozen=True):
    """One engine that a job may use on a factory."""

    engine: str | None
    """The engine as named by the job; None for the ship step, which needs none."""
    seats: str | None
    """The name under which its seats are counted."""
    index: int
    """Its index among the engines of the traits; -1 without an engine."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How well a pool fits a job class; the same for every job and factory of the two."""

    engines: tuple[EngineChoice, ...]
    """In the job's order of preference."""
    matched: tuple[str, ...]
    capability: float
    prefers_met: int
    warm: bool


NO_ENGINE = (EngineChoice(None, None, -1),)


def match(  # noqa: PLR0911 - a return for each way in which they do not fit
    job_class: JobClass,
    traits: FactoryTraits,
    common: frozenset[str] = frozenset(),
    classes: Mapping[str, EngineClass] = ENGINE_CLASSES,
) -> Fit | Rejection:
    """Return how factories with these traits fit jobs of a class, or why they cannot run them.

    Factories required by name are checked by `JobClass.allows_factory`. `common` are the tokens
    that every factory has, which do not count as tied-up equipment.
    """
    if not traits.admits(job_class.product_id):
        return Rejection("product", f"its token does not admit product {job_class.product_id}")
    ask, runs = job_class.ask, job_class.step is Step.RUN
    needs = tuple(_unnamed(ask.needs)) if runs else ()
    if missing := missing_requirements(needs, traits.tokens):
        return Rejection("capability", "it lacks " + ", ".join(missing))
    if runs and (loose := sandbox_gap(ask, traits.tokens)):
        return Rejection("sandbox", loose)
    if ask.repo is not None and ask.repo not in traits.repos and not traits.may_clone:
        return Rejection("repo", f"it has no checkout of {ask.repo} and may not clone")
    engines = tuple(engine_choices(ask, traits.engines, classes)) if runs else NO_ENGINE
    if not engines:
        return Rejection("engine", f"it has no {describe_engine(ask)}")
    if traits.draining:
        return Rejection("draining", "it is draining")
    return Fit(
        engines=engines,
        matched=ask.needs if runs else (),
        capability=capability_fit(needs, traits.tokens - common),
        prefers_met=sum(meets(token, traits.tokens) for token in _unnamed(ask.prefers)),
        warm=ask.repo in traits.repos,
    )


def sandbox_gap(ask: Ask, tokens: frozenset[str]) -> str | None:
    """Return why a factory cannot sandbox a run as required; None when it can.

    A factory that advertises no sandbox token is assumed to be able to.
    """
    advertises = any(token.startswith(SANDBOX_PREFIX) for token in tokens)
    if advertises and ask.sandbox is not None and SANDBOX_PREFIX + ask.sandbox not in tokens:
        return f"it cannot run a job in sandbox {ask.sandbox}"
    if ask.yolo and SANDBOX_BROKEN in tokens:
        return (
            "it has no sandbox that works, so it takes no yolo job; install one there (`aq doctor`"
            " says how), or set factory.yolo-without-sandbox"
        )
    return None


def engine_choices(
    ask: Ask, present: tuple[str, ...], classes: Mapping[str, EngineClass] = ENGINE_CLASSES
) -> Iterator[EngineChoice]:
    """Yield the present engines that a job may use, in order of preference."""
    wanted = Manifest(
        engine=ask.engine,
        engine_class=cast("EngineClass", ask.engine_class),
        prefers_engine=ask.prefers_engine,
    )
    for engine in eligible_engines(wanted, present, classes):
        seats = base_engine(engine)
        yield EngineChoice(engine, seats, present.index(seats))


def describe_engine(ask: Ask) -> str:
    """Return a phrase that names the engine or engine class a job needs."""
    return f"engine {ask.engine}" if ask.engine is not None else f"{ask.engine_class} engine"


def capability_fit(needs: tuple[str, ...], tokens: frozenset[str]) -> float:
    """Return 1 when the job needs all special equipment, less the more would be tied up unused."""
    special = [token for token in tokens if _is_special(token)]
    needed = sum(any(meets(need, frozenset({token})) for need in needs) for token in special)
    return (1 + needed) / (1 + len(special))


def _is_special(token: str) -> bool:
    key, colon, _ = token.partition(":")
    return not colon or key in SPECIAL_KEYS


def _unnamed(tokens: tuple[str, ...]) -> Iterator[str]:
    return (token for token in tokens if not token.startswith(FACTORY_PREFIX))
