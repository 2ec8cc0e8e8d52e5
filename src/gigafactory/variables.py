"""The environment variable of each setting."""

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
