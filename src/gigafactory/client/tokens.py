"""The calls on tokens and profiles."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.admin import LoginView, TokensView, TokenView
from gigafactory.wire.jobs import ProfilesView


def tokens() -> Call[TokensView]:
    """Every token, without its secret."""
    return Call(method="GET", path=path("tokens"), answer=TokensView)


def issue_token(
    user: str, role: str, *, products: Sequence[str] = ("*",), lasts_s: float | None = None
) -> Call[TokenView]:
    """Make a token for a person; its secret is shown this once."""
    told = {"user": user, "role": role, "products": products, "expiresIn": lasts_s}
    body = msgspec.json.encode(told)
    return Call(method="POST", path=path("tokens"), answer=TokenView, body=body, repeatable=False)


def revoke_token(token_id: str) -> Call[TokenView]:
    """End a token."""
    return Call(method="DELETE", path=path("tokens", token_id), answer=TokenView)


def login() -> Call[LoginView]:
    """Make a one-time code by which a browser signs in."""
    return Call(method="POST", path=path("logins"), answer=LoginView, repeatable=False)


def profiles() -> Call[ProfilesView]:
    """The profiles that jobs of the product can name."""
    return Call(method="GET", path=path("profiles"), answer=ProfilesView)


def profile(name: str, version: int | None = None) -> Call[dict[str, Any]]:
    """One profile, by default in its newest version."""
    where = path("profiles", name, *([str(version)] if version is not None else []))
    return Call(method="GET", path=where, answer=dict[str, Any])


def save_profile(text: bytes) -> Call[dict[str, Any]]:
    """Save a profile file as a new version, in the chosen product."""
    where = path("profiles")
    return Call(
        method="POST",
        path=where,
        answer=dict[str, Any],
        body=text,
        content_type="text/markdown",
    )
