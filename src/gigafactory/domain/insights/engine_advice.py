"""Advice: what finished work says about which engine to take, and the words for it."""

import msgspec

OVERALL = "all"
"""What advice is by that is about all work together."""


class Advice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The engine whose work comes out well at once most often, and what can be said of it."""

    by: str = OVERALL
    """What the work has in common: its `profile` or its `repo`; `all` for everything."""
    group: str = OVERALL
    engine: str | None = None
    """None while no engine is clearly ahead of all others."""
    first_tries: int = 0
    """How much it rests on: the first tries of all engines together."""
    says: str
