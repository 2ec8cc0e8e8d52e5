"""Who may see a factory, and who may act on it."""

from collections.abc import Collection

from msgspec.structs import replace

from gigafactory.domain.errors import NotFound
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller


def is_visible(caller: Caller, factory: Factory) -> bool:
    """Return whether a caller may see a factory: it serves one of the caller's products."""
    return caller.sees_any(factory.products)


def visible_part(caller: Caller, factory: Factory, owned_repos: Collection[str]) -> Factory:
    """Return the factory without what it says of products that the caller may not see.

    A shared factory has checkouts of all of them: of these, only `owned_repos` are shown.
    """
    if caller.factory_id == factory.id or caller.covers_all(factory.products):
        return factory
    products = tuple(p for p in factory.products if p == FLEET or caller.can_see(p))
    repos = tuple(name for name in factory.repos if name in owned_repos)
    return replace(factory, products=products, repos=repos)


def require_visible(caller: Caller, factory_id: str, factory: Factory | None) -> Factory:
    """Return the factory that was looked up.

    Raises NotFound if there is none, or none that the caller may see.
    """
    if factory is None or not is_visible(caller, factory):
        raise NotFound("factory", factory_id, "list them with `aq factory list`")
    return factory


def require_control(caller: Caller, verb: str, factory_id: str, factory: Factory | None) -> Factory:
    """Return the factory that was looked up, for a caller that may use the verb on it.

    That is the factory itself, or a person whose scope covers every product that it serves.
    Raises Forbidden, also for a factory that the caller shares with others; NotFound.
    """
    itself = caller.factory_id == factory_id
    if not itself:
        caller.require(verb, OWN_PRODUCTS)
    visible = require_visible(caller, factory_id, factory)
    if not itself:
        caller.require(verb, visible.products)
    return visible
