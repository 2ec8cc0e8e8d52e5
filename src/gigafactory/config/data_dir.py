"""Where things lie on this machine, and what that says of the coordinator to ask.

It is needed before anything can be shown, so it does without what takes long to import.
"""

import os
import sys
from collections.abc import Mapping

FILE_NAME = "aq.toml"
ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file
SERVER_URL = "server.url"

HOST, PORT = "127.0.0.1", 8790
"""Where a coordinator listens that was told nothing else."""
LOCAL_PRODUCT = "default"
"""The product of people who have never heard of products, on their own machine."""


def find_file(folder: str) -> str | None:
    """The nearest `aq.toml`, in this folder or above it."""
    place = os.path.join(folder, FILE_NAME)
    if os.path.isfile(place):
        return place
    above = os.path.dirname(folder)
    return find_file(above) if above != folder else None


def default_data(environ: Mapping[str, str]) -> str:
    """The user's own folder for programs' data, as each system has it."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "gigafactory")
    if sys.platform == "win32":
        place = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        place = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(place, "gigafactory")


def read_line(file: str | os.PathLike[str]) -> str | None:
    """The one line of a file of the data folder; None when there is none to read."""
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read().strip() or None
    except OSError:
        return None


class Access:
    """Where the coordinator is, and with what token it is spoken to."""

    def __init__(self, url: str, token: str | None, product: str | None, *, local: bool) -> None:
        self.url = url
        self.token = token
        self.product = product
        self.local = local


def access(
    data: str | os.PathLike[str],
    usual_url: str,
    *,
    url: str | None,
    token: str | None,
    product: str | None,
) -> Access:
    """As told; else the coordinator of this data folder, as its owner."""
    here = read_line(os.path.join(data, SERVER_URL)) or usual_url
    # The owner's token goes to the owner's own coordinator, and to no other address.
    local = url is None or url.rstrip("/") == here
    shown = token or (read_line(os.path.join(data, ADMIN_TOKEN)) if local else None)
    about = product or (LOCAL_PRODUCT if local and token is None else None)
    return Access(url or here, shown, about, local=local)


def url_of(host: str, port: int) -> str:
    """The address of a coordinator that listens there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
