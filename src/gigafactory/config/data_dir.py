"""Locate the data folder, the configuration file and the local coordinator.

The CLI's fast path imports this module, so it avoids slow imports such as pathlib.
"""

import os
import sys
from collections.abc import Mapping

FILE_NAME = "aq.toml"
ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file
SERVER_URL = "server.url"
SERVER_LOCK = "server.lock"
"""Locked, shared, by every coordinator of the data folder while it listens."""
PAGES_HOST = "pages.host"

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this machine can reach."""
HOST, PORT = LOOPBACK[0], 8790
"""Default address of a coordinator."""
LOCAL_PRODUCT = "default"
"""Default product on a person's own machine."""


def find_file(folder: str) -> str | None:
    """Return the nearest `aq.toml` in this folder or above it."""
    place = os.path.join(folder, FILE_NAME)
    if os.path.isfile(place):
        return place
    above = os.path.dirname(folder)
    return find_file(above) if above != folder else None


def default_data(environ: Mapping[str, str]) -> str:
    """Return the default data folder of the user on this platform."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "gigafactory")
    if sys.platform == "win32":
        place = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        place = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(place, "gigafactory")


def read_line(file: str | os.PathLike[str]) -> str | None:
    """Return the only line of a file; None if it is missing or empty."""
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read().strip() or None
    except OSError:
        return None


class CoordinatorAccess:
    """URL, token and product for requests to a coordinator."""

    def __init__(self, url: str, token: str | None, product: str | None, *, local: bool) -> None:
        self.url = url
        self.token = token
        self.product = product
        self.local = local


def coordinator_access(
    data: str | os.PathLike[str],
    usual_url: str,
    *,
    url: str | None,
    token: str | None,
    product: str | None,
) -> CoordinatorAccess:
    """Return the given access, or the owner's access to the coordinator of this data folder.

    While no coordinator runs, the owner's token is left out: another program may have its port.
    """
    local_url = read_line(os.path.join(data, SERVER_URL)) or usual_url
    # Send the owner's token only to the owner's own coordinator.
    local = url is None or url.rstrip("/") == local_url
    own = local and _is_served(os.path.join(data, SERVER_LOCK))
    own_token = token or (read_line(os.path.join(data, ADMIN_TOKEN)) if own else None)
    own_product = product or (LOCAL_PRODUCT if local and token is None else None)
    return CoordinatorAccess(url or local_url, own_token, own_product, local=local)


def _is_served(lock: str) -> bool:
    """Return whether a coordinator holds this lock; True if that cannot be known."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        with open(lock) as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # It is held, or missing, as with an older coordinator.
        return True
    return False


def is_plain_text(url: str) -> bool:
    """Return whether requests to a URL cross a network without encryption."""
    return url.startswith("http://") and not is_this_machine(url)


def is_this_machine(url: str) -> bool:
    """Return whether only this machine reaches the host of a URL."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name in LOOPBACK or name.startswith("127.") or name.endswith(".localhost")


def listen_url(host: str, port: int) -> str:
    """Return the URL of a coordinator that listens on this address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
