"""`aq jobs` and `aq attention` as they are mostly typed: shown before Click could be imported.

Only what is ordinary is done here. Whatever is not, and every refusal, is left to the command
itself, which then asks once more: so each rule and each message has one place.
"""

import os
import re
from collections.abc import Mapping

from gigafactory.cli.output.tables import show_attention, show_jobs
from gigafactory.client.transport.headers import ROOT, head, introduction, is_here, opened
from gigafactory.config.data_dir import (
    HOST,
    PORT,
    coordinator_access,
    default_data,
    find_file,
    listen_url,
)
from gigafactory.config.env_vars import PREFIX, variable

SHOWN = {"jobs": show_jobs, "attention": show_attention}

SETTINGS = ("data", "client.url", "client.token", "client.product")
"""What a glance knows how to read from the environment; all else is the command's."""
ADDRESS = re.compile(r"http://([\w.-]+):(\d{1,5})/*", re.ASCII)
ONLY = {"accept-encoding": "identity", "connection": "close"}
"""After one answer the connection ends, and so it need not be found out where the answer does."""
ANSWERED_WITHIN_S = 3.0
"""So long a glance may wait; the command itself has more patience."""
PIECE_BYTES = 65_536
PORT_MAX = 65_535


def glance(typed: list[str], environ: Mapping[str, str]) -> bool:
    """Show the list that was asked for; False, with nothing said, when it is not that easy."""
    try:
        SHOWN[typed[0]](_asked(typed[0], environ), as_json="--json" in typed)
    except (OSError, ValueError):
        # It may also be that the reader has left: the command knows how to end then, too.
        return False
    return True


def _asked(what: str, environ: Mapping[str, str]) -> bytes:
    """What the coordinator answers.

    Raises ValueError where only the command itself knows what to do, OSError as a socket does.
    """
    known = {key: variable(key) for key in SETTINGS}
    if any(name.startswith(PREFIX) for name in environ.keys() - known.values()):
        raise ValueError("there are more settings")
    if find_file(os.getcwd()) is not None:
        raise ValueError("there is a file of settings")
    data, url, token, product = (environ.get(name) or None for name in known.values())
    if data is not None and not os.path.isabs(data):
        raise ValueError("the data folder is not named in full")
    usual = listen_url(HOST, PORT)
    there = coordinator_access(
        data or default_data(environ), usual, url=url, token=token, product=product
    )
    host, port = _address(there.url, environ)
    # Lists are of all products, unless one was chosen.
    headers = {"host": f"{host}:{port}", **introduction(there.token, product)}
    return _fetched(host, port, head(f"GET {ROOT}/{what} HTTP/1.1", headers | ONLY))


def _address(url: str, environ: Mapping[str, str]) -> tuple[str, int]:
    at = ADDRESS.fullmatch(url)
    if at is None or not 0 < int(at[2]) <= PORT_MAX:
        raise ValueError("the way there is not plain HTTP")
    if not is_here(at[1]) and any(name.lower().endswith("_proxy") for name in environ):
        raise ValueError("the way there may lead through a proxy")
    return at[1], int(at[2])


def _fetched(host: str, port: int, request: bytes) -> bytes:
    with opened(host, port, ANSWERED_WITHIN_S) as wire:
        wire.sendall(request)
        come = b"".join(iter(lambda: wire.recv(PIECE_BYTES), b""))
    lines, _, body = come.partition(b"\r\n\r\n")
    first, *headers = lines.decode("latin-1").lower().split("\r\n")
    if not first.startswith(("http/1.0 200", "http/1.1 200")):
        raise ValueError("it is no plain answer")
    if not {"content-type: application/json", f"content-length: {len(body)}"} <= set(headers):
        raise ValueError("it is not JSON, or not whole")
    return body
