"""Engine advice: which engine passes at first attempt most often, for some group of work."""

import msgspec

OVERALL = "all"
"""The value of `by` and `group` for advice on all work together."""


class Advice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The engine with the best first-pass rate for a group of work, with the evidence in words."""

    by: str = OVERALL
    """The grouping: `profile`, `repo`, or `all` for all work."""
    group: str = OVERALL
    engine: str | None = None
    """None while no engine is significantly better than all others."""
    first_tries: int = 0
    """The number of first attempts of all engines together."""
    says: str
