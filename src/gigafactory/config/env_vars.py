"""The environment variable of each setting.

The CLI's fast path imports this module, so it avoids slow imports.
"""

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
"""Variables whose name does not follow from the setting's key."""


def variable(key: str) -> str:
    """Return the environment variable of a setting."""
    return NAMED.get(key) or PREFIX + key.replace(".", "_").replace("-", "_").upper()
