"""What the OpenAPI description says of an operation, written beside its handler."""

from dataclasses import dataclass, field
from typing import Any

KEY = "operation"

ALWAYS = (400, 401, 403, 422, 429, 503)
"""What any call with a token can be refused with."""
OPEN = (400, 413, 422, 429, 503)
"""The same for calls without one."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """A body that is taken or given: its type (one of several; None: plain bytes), an example."""

    of: Any = None
    media_type: str = "application/json"
    example: Any = None
    text: str = ""
    also: tuple[str, ...] = ()
    """Further media types that it may have, as text."""

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that it may have."""
        if self.of is None:
            return ()
        return self.of if isinstance(self.of, tuple) else (self.of,)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation: what it takes, what it gives by status, and how it may be refused."""

    tag: str
    request_bodies: tuple[Body, ...] = ()
    query: type | None = None
    responses: dict[int, Body | None] = field(default_factory=dict)
    error_statuses: tuple[int, ...] = ()
    token: bool = True
    optional_body: bool = False
    sends: tuple[str, ...] = ()
    """Headers that it understands beside those that all do."""


def operation(
    tag: str,
    *,
    takes: Body | tuple[Body, ...] = (),
    query: type | None = None,
    gives: dict[int, Body | None],
    refuses: tuple[int, ...] = (),
    token: bool = True,
    optional_body: bool = False,
    sends: tuple[str, ...] = (),
) -> dict[str, Operation]:
    """The options of a route that describe it; the handler's docstring is its text."""
    bodies = takes if isinstance(takes, tuple) else (takes,)
    common = ALWAYS if token else OPEN
    refused = {*common, *refuses, *((413,) if bodies else ())}
    told = Operation(
        tag=tag,
        request_bodies=bodies,
        query=query,
        responses=gives,
        error_statuses=tuple(sorted(refused)),
        token=token,
        optional_body=optional_body,
        sends=sends,
    )
    return {KEY: told}
