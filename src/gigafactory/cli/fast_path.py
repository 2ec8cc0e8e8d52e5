"""Fast path of `aq jobs` and `aq attention`: runs without importing Click or msgspec.

It handles only the ordinary case. In any other case, and on every error, the normal command runs
and asks again, so that each rule and message exists once.
"""

import os
import re
from collections.abc import Mapping

from gigafactory.cli.output.tables import show_attention, show_jobs
from gigafactory.client.transport.headers import (
    ROOT,
    common_headers,
    encode_head,
    is_this_machine,
    open_socket,
)
from gigafactory.config.data_dir import (
    HOST,
    PORT,
    coordinator_access,
    default_data,
    find_file,
    listen_url,
)
from gigafactory.config.env_vars import PREFIX, variable

SHOW = {"jobs": show_jobs, "attention": show_attention}

SETTINGS = ("data", "client.url", "client.token", "client.product")
"""Settings that the fast path reads from the environment."""
ADDRESS = re.compile(r"http://([\w.-]+):(\d{1,5})/*", re.ASCII)
ONLY = {"accept-encoding": "identity", "connection": "close"}
"""The server closes the connection after the response, which marks its end."""
ANSWERED_WITHIN_S = 3.0
"""Timeout of the fast path; the normal command waits longer."""
PIECE_BYTES = 65_536
PORT_MAX = 65_535


def run_fast(typed: list[str], environ: Mapping[str, str]) -> bool:
    """Print the list; return False, without output, if the normal command must run."""
    try:
        SHOW[typed[0]](_request(typed[0], environ), as_json="--json" in typed)
    except (OSError, ValueError):
        # A closed pipe ends here too; the normal command handles it.
        return False
    return True


def _request(path: str, environ: Mapping[str, str]) -> bytes:
    """Return the response body; raise ValueError or OSError if the normal command must run."""
    values_by_setting = {key: variable(key) for key in SETTINGS}
    if any(name.startswith(PREFIX) for name in environ.keys() - values_by_setting.values()):
        raise ValueError("other settings are present")
    if find_file(os.getcwd()) is not None:
        raise ValueError("a settings file is present")
    data, url, token, product = (environ.get(name) or None for name in values_by_setting.values())
    if data is not None and not os.path.isabs(data):
        raise ValueError("the data folder is not absolute")
    default_url = listen_url(HOST, PORT)
    coordinator = coordinator_access(
        data or default_data(environ), default_url, url=url, token=token, product=product
    )
    host, port = _address(coordinator.url, environ)
    # Lists cover all products, unless one was chosen.
    headers = {"host": f"{host}:{port}", **common_headers(coordinator.token, product)}
    return _fetch(host, port, encode_head(f"GET {ROOT}/{path} HTTP/1.1", headers | ONLY))


def _address(url: str, environ: Mapping[str, str]) -> tuple[str, int]:
    at = ADDRESS.fullmatch(url)
    if at is None or not 0 < int(at[2]) <= PORT_MAX:
        raise ValueError("not plain HTTP")
    if not is_this_machine(at[1]) and any(name.lower().endswith("_proxy") for name in environ):
        raise ValueError("a proxy may be needed")
    return at[1], int(at[2])


def _fetch(host: str, port: int, request: bytes) -> bytes:
    with open_socket(host, port, ANSWERED_WITHIN_S) as wire:
        wire.sendall(request)
        received = b"".join(iter(lambda: wire.recv(PIECE_BYTES), b""))
    lines, _, body = received.partition(b"\r\n\r\n")
    first, *headers = lines.decode("latin-1").lower().split("\r\n")
    if not first.startswith(("http/1.0 200", "http/1.1 200")):
        raise ValueError("not a plain 200 response")
    if not {"content-type: application/json", f"content-length: {len(body)}"} <= set(headers):
        raise ValueError("not JSON, or incomplete")
    return body
