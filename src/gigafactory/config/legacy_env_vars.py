"""Legacy environment variables and their present meaning."""

from typing import NamedTuple


class RenamedVariable(NamedTuple):
    """A legacy variable with the same meaning as a setting."""

    key: str


class OnOffVariable(NamedTuple):
    """A legacy on/off variable for a setting with more values."""

    key: str
    on: str
    off: str | None
    """None: off leaves the setting unchanged."""


class AlwaysOnVariable(NamedTuple):
    """A legacy variable for a feature that is now always on."""

    instead: str
    """Why it cannot be disabled, and what to do instead."""


LEGACY: dict[str, RenamedVariable | OnOffVariable | AlwaysOnVariable] = {
    "AQ_FLEET_REPO_BASE": RenamedVariable("factory.repos"),
    "AQ_FLEET_GATE": OnOffVariable("factory.source", on="gate", off="poll"),
    "AQ_FLEET_ROUTE": OnOffVariable("dispatch.mode", on="push", off="pull"),
    "AQ_FLEET_SHADOW": OnOffVariable("dispatch.mode", on="shadow", off=None),
    "AQ_FLEET_DASH": OnOffVariable("client.dash", on="fleet", off="folder"),
    "FLEET_PREEMPTION": OnOffVariable("fleet.preempt-for", on="critical", off=""),
    "FLEET_BUDGETS": AlwaysOnVariable("a budget always applies; `aq budget set none` removes it"),
}
"""Legacy variables; the current variable of a setting takes precedence."""
