"""A row of the authorization matrix: who may use an operation or send a form."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from tests.support.two_tenants import FLEET, OWN, Agent, Caller, Machine, Person, TwoTenants

REFUSED = frozenset({401, 403, 404})
ANY = "*any*"
"""The value of `touches` for a call that covers all objects in the caller's scope."""


class Try(NamedTuple):
    """One prepared request; a secret replaces the token of the caller."""

    place: str
    document: object = None
    secret: str | None = None


Prepare = Callable[[TwoTenants, Caller], Awaitable[Try]]


class Row(NamedTuple):
    """The callers that may use an operation: people by verb, factories and agents."""

    verb: str | None
    """The verb that a person's role must allow; None if no person may use the operation."""
    prepare: Prepare
    touches: str = OWN
    """The product of the object; `*` for an object of the fleet."""
    machines: str = "none"
    """The factories that may: `none`, `any` of the product, `itself`, `worker` with the lease."""
    agents: bool = False
    """Whether the agent of the job may use the operation."""
    everybody: bool = False
    """Whether no token is needed."""
    refusals: frozenset[int] = REFUSED
    """The statuses of a refusal."""

    def allows(self, caller: Caller) -> bool:
        """Return whether the caller may use the operation."""
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
    """Prepare the same request for every call; `{name}` stands for a field of the world."""

    async def prepare(world: TwoTenants, caller: Caller) -> Try:
        known = vars(world) | {"leased": world.leased["job"]["id"]}
        return Try(place.format_map(known), document)

    return prepare
