"""A row of the authorization matrix: who may use an operation or send a form."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from tests.support.two_tenants import FLEET, OWN, Agent, Caller, Machine, Person, TwoTenants

REFUSED = frozenset({401, 403, 404})
ANY = "*any*"
"""What a call touches when it concerns whatever the caller's scope covers."""


class Try(NamedTuple):
    """One request, prepared for one call; with a secret, it is sent with that token."""

    place: str
    document: object = None
    secret: str | None = None


Prepare = Callable[[TwoTenants, Caller], Awaitable[Try]]


class Row(NamedTuple):
    """Who may use an operation: roles by verb, and which tokens of machines."""

    verb: str | None
    """The verb that people need; None: people may not at all."""
    prepare: Prepare
    touches: str = OWN
    """The product of the object; `*` for what belongs to the fleet."""
    machines: str = "none"
    """`none`, `any` of the product, `itself`, `worker` with the lease."""
    agents: bool = False
    """Whether the agent of the job may."""
    everybody: bool = False
    """Whether no token is needed."""
    refusals: frozenset[int] = REFUSED
    """The statuses of a refusal."""

    def allows(self, caller: Caller) -> bool:
        """Return whether the caller may."""
        if self.everybody:
            return True
        match caller:
            case Person():
                inside = self.touches in {ANY, caller.scope} or caller.scope == FLEET
                return self.verb is not None and caller.role in ROLES_BY_VERB[self.verb] and inside
            case Machine():
                shares = self.touches in {ANY, caller.scope} or caller.scope == FLEET
                own = caller.scope == (OWN if self.touches == ANY else self.touches)
                return {"none": False, "any": shares, "itself": own, "worker": own}[self.machines]
            case Agent():
                return self.agents and caller.scope == OWN
            case _:
                return False


def at(place: str, document: object = None) -> Prepare:
    """Prepare the same request for every call; names of fields of the world are filled in."""

    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        known = vars(world) | {"leased": world.leased["job"]["id"]}
        return Try(place.format_map(known), document)

    return prepare
