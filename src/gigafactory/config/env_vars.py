"""The environment variables of old, and what each says today."""

from typing import NamedTuple

PREFIX = "AQ_"

NAMED = {
    "server.host": "AQ_HOST",
    "server.port": "AQ_PORT",
    "lease.renew-every": "AQ_FLEET_LEASE_RENEW_SEC",
    "folder.fleet": "AQ_FLEET",
    "client.url": "AQ_FLEET_API",
    "client.token": "AQ_FLEET_TOKEN",
    "client.product": "AQ_PRODUCT_ID",
}
"""The variables that are older than their settings; all others follow from the key."""


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return NAMED.get(key) or PREFIX + key.replace(".", "_").replace("-", "_").upper()


class Renamed(NamedTuple):
    """A variable that says what a setting says."""

    key: str


class Switch(NamedTuple):
    """A variable that is on or off, where the setting for it can say more."""

    key: str
    on: str
    off: str | None
    """None: off says nothing, and the setting is what it is otherwise."""


class Always(NamedTuple):
    """A variable that turned on what is always there now."""

    instead: str
    """Why it cannot be turned off, and what to do."""


FORMER: dict[str, Renamed | Switch | Always] = {
    "AQ_FLEET_REPO_BASE": Renamed("factory.repos"),
    "AQ_FLEET_GATE": Switch("factory.source", on="gate", off="poll"),
    "AQ_FLEET_ROUTE": Switch("dispatch.mode", on="push", off="pull"),
    "AQ_FLEET_SHADOW": Switch("dispatch.mode", on="shadow", off=None),
    "AQ_FLEET_DASH": Switch("client.dash", on="fleet", off="folder"),
    "FLEET_PREEMPTION": Switch("fleet.preempt-for", on="critical", off=""),
    "FLEET_BUDGETS": Always(
        "a ceiling that somebody has set always holds; `aq budget set none` takes it away"
    ),
}
"""The variables of old whose settings have another one by now; that one counts where both are."""
