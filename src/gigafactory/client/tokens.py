"""Calls on tokens and profiles."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.tenancy.access import Role
from gigafactory.wire.admin import LoginView, TokenDoc, TokensView, TokenView
from gigafactory.wire.jobs import ProfilesView


def tokens() -> ApiCall[TokensView]:
    """List all tokens, without their secrets."""
    return ApiCall(method="GET", path=path("tokens"), response_type=TokensView)


def issue_token(
    user: str, role: Role, *, products: Sequence[str] = ("*",), lasts_s: float | None = None
) -> ApiCall[TokenView]:
    """Create a token for a person; its secret is shown once."""
    doc = TokenDoc(user=user, role=role, products=tuple(products), expires_in=lasts_s)
    body = msgspec.json.encode(doc)
    return ApiCall(
        method="POST", path=path("tokens"), response_type=TokenView, body=body, repeatable=False
    )


def revoke_token(token_id: str) -> ApiCall[TokenView]:
    """Revoke a token."""
    return ApiCall(method="DELETE", path=path("tokens", token_id), response_type=TokenView)


def login() -> ApiCall[LoginView]:
    """Create a one-time code for a browser login."""
    return ApiCall(method="POST", path=path("logins"), response_type=LoginView, repeatable=False)


def profiles() -> ApiCall[ProfilesView]:
    """List the profiles available to the product."""
    return ApiCall(method="GET", path=path("profiles"), response_type=ProfilesView)


def profile(name: str, version: int | None = None) -> ApiCall[dict[str, Any]]:
    """Return one profile, by default its newest version."""
    where = path("profiles", name, *([str(version)] if version is not None else []))
    return ApiCall(method="GET", path=where, response_type=dict[str, Any])


def save_profile(text: bytes) -> ApiCall[dict[str, Any]]:
    """Save a profile file as a new version, in the chosen product."""
    where = path("profiles")
    return ApiCall(
        method="POST",
        path=where,
        response_type=dict[str, Any],
        body=text,
        content_type="text/markdown",
    )
