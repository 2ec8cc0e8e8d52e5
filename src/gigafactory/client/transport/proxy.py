"""The HTTP proxy from the usual environment variables."""

import base64
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from gigafactory.client.transport.headers import is_this_machine
from gigafactory.client.transport.problems import Unreachable


class HttpProxy(NamedTuple):
    """Address and credentials of a proxy."""

    host: str
    port: int
    headers: Mapping[str, str]


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> HttpProxy | None:
    """Return the proxy for a server; None for a direct connection.

    Raises Unreachable for one that is no http proxy.
    """
    told = {name.lower(): value for name, value in environ.items() if value}
    address = told.get(f"{scheme}_proxy") or told.get("all_proxy")
    if (
        address is None
        or is_this_machine(host)
        or _bypasses_proxy(host, port, told.get("no_proxy", ""))
    ):
        return None
    try:
        at = urlsplit(address if "://" in address else f"http://{address}")
        found = HttpProxy(at.hostname or "", at.port or 80, _headers(at.username, at.password))
    except ValueError:
        at, found = urlsplit(""), HttpProxy("", 0, {})
    if at.scheme != "http" or not found.host:
        raise Unreachable(f"cannot use the proxy for {scheme}: expected http://HOST:PORT")
    return found


def _headers(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _bypasses_proxy(host: str, port: int, listed: str) -> bool:
    return any(_matches(each.strip(), host.lower(), port) for each in listed.lower().split(","))


def _matches(spared: str, host: str, port: int) -> bool:
    name, _, its_port = spared.lstrip("*").lstrip(".").partition(":")
    if its_port not in {"", str(port)} or not spared:
        return False
    return spared == "*" or host == name or host.endswith(f".{name}")
