"""OpenAPI metadata of an operation, declared at its handler."""

from dataclasses import dataclass, field
from typing import Any

KEY = "operation"

ALWAYS = (400, 401, 403, 422, 429, 431, 503)
"""Error statuses of every request with a token."""
OPEN = (400, 413, 422, 429, 431, 503)
"""The same for requests without a token."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """A request or response body: its type (or a tuple of types; None: bytes), an example."""

    of: Any = None
    media_type: str = "application/json"
    example: Any = None
    description: str = ""
    other_media_types: tuple[str, ...] = ()
    """Additional media types with a plain string schema."""

    @property
    def types(self) -> tuple[Any, ...]:
        """The possible types."""
        if self.of is None:
            return ()
        return self.of if isinstance(self.of, tuple) else (self.of,)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation: request bodies, responses by status, error statuses."""

    tag: str
    request_bodies: tuple[Body, ...] = ()
    query: type | None = None
    responses: dict[int, Body | None] = field(default_factory=dict)
    error_statuses: tuple[int, ...] = ()
    token: bool = True
    optional_body: bool = False
    headers: tuple[str, ...] = ()
    """Request headers beyond the common ones."""


def operation(
    tag: str,
    *,
    body: Body | tuple[Body, ...] = (),
    query: type | None = None,
    responses: dict[int, Body | None],
    errors: tuple[int, ...] = (),
    token: bool = True,
    optional_body: bool = False,
    headers: tuple[str, ...] = (),
) -> dict[str, Operation]:
    """Return route options with an operation; the handler's docstring is its description."""
    bodies = body if isinstance(body, tuple) else (body,)
    common = ALWAYS if token else OPEN
    refused = {*common, *errors, *((413,) if bodies else ())}
    described = Operation(
        tag=tag,
        request_bodies=bodies,
        query=query,
        responses=responses,
        error_statuses=tuple(sorted(refused)),
        token=token,
        optional_body=optional_body,
        headers=headers,
    )
    return {KEY: described}
