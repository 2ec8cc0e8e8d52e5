"""Resolve a manifest: job over profile over defaults."""

from datetime import timedelta

import msgspec

from gigafactory.domain.manifest.engine_ref import COMMAND
from gigafactory.domain.manifest.manifest import Manifest, Retry, ReviewPolicy
from gigafactory.domain.manifest.profile import Profile

DEFAULT_TIMEOUT = timedelta(hours=2)
DEFAULT_STALL = timedelta(minutes=15)
DEFAULT_BACKOFF = timedelta(seconds=30)
DEFAULT_RETRY_ON = ("timeout", "crash", "verify_failed", "setup_failed", "overloaded")
"""The results that are retried if `retry.on` is not given."""

_SILENT = Profile(name="none")


def resolve(manifest: Manifest, profile: Profile | None, *, product: str) -> Manifest:
    """Return the resolved manifest: a snapshot that later profile edits do not change."""
    role = profile or _SILENT
    verify = manifest.verify or role.default_verify
    return msgspec.structs.replace(
        manifest,
        title=manifest.title or manifest.name,
        product=manifest.product or product,
        priority=manifest.priority or "medium",
        deps_mode=manifest.deps_mode or "hard",
        on_dep_failure=manifest.on_dep_failure or "wait",
        kind=manifest.kind or "leaf",
        yolo=manifest.yolo or False,
        profile=f"{profile.name}@{profile.version}" if profile else manifest.profile,
        persona=role.persona or None,
        capabilities=tuple(dict.fromkeys((*manifest.capabilities, *role.capabilities))),
        setup=manifest.setup or role.default_setup or "auto",
        verify=verify,
        allowed_scope=manifest.allowed_scope or role.allowed_scope,
        scope_enforcement=role.scope_enforcement,
        sandbox=manifest.sandbox or role.sandbox,
        **_engine(manifest, role),
        **_limits(manifest, role),
        **_gates(manifest, role, verified=verify is not None),
    )


def _engine(manifest: Manifest, role: Profile) -> dict[str, object]:
    # A command implies the engine that runs it.
    implied = COMMAND if manifest.command is not None else None
    return {
        "engine": manifest.engine or implied,
        "engine_class": manifest.engine_class or role.engine_class or "agentic-coder",
        "prefers_engine": manifest.prefers_engine or role.prefers_engine,
        "model": manifest.model or role.model,
    }


def _limits(manifest: Manifest, role: Profile) -> dict[str, object]:
    has_wall_limit = manifest.budget is not None and manifest.budget.wall is not None
    retry = manifest.retry or Retry()
    return {
        "timeout": manifest.timeout or (None if has_wall_limit else DEFAULT_TIMEOUT),
        "stall": _first(manifest.stall, role.stall, DEFAULT_STALL),
        "verify_rounds": _first(manifest.verify_rounds, role.verify_rounds, 1),
        "retry": Retry(
            retry.max,
            DEFAULT_BACKOFF if retry.backoff is None else retry.backoff,
            retry.on or DEFAULT_RETRY_ON,
        ),
    }


def _gates(manifest: Manifest, role: Profile, *, verified: bool) -> dict[str, object]:
    default = ReviewPolicy("auto" if verified else "manual")
    return {
        "review_policy": manifest.review_policy or role.review_policy or default,
        "ship": manifest.ship or role.ship or "merge",
        "ship_policy": manifest.ship_policy or role.ship_policy or "manual",
        "merge_style": manifest.merge_style or role.merge_style or "merge",
        "wait_merge": _first(manifest.wait_merge, role.wait_merge) or False,
    }


def _first(*values: object) -> object:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)
