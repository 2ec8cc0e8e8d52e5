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

    Raises Unreachable for a proxy that is not an HTTP proxy.
    """
    variables = {name.lower(): value for name, value in environ.items() if value}
    address = variables.get(f"{scheme}_proxy") or variables.get("all_proxy")
    if (
        address is None
        or is_this_machine(host)
        or _bypasses_proxy(host, port, variables.get("no_proxy", ""))
    ):
        return None
    try:
        at = urlsplit(address if "://" in address else f"http://{address}")
        proxy = HttpProxy(at.hostname or "", at.port or 80, _headers(at.username, at.password))
    except ValueError:
        at, proxy = urlsplit(""), HttpProxy("", 0, {})
    if at.scheme != "http" or not proxy.host:
        raise Unreachable(f"cannot use the proxy for {scheme}: expected http://HOST:PORT")
    return proxy


def _headers(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _bypasses_proxy(host: str, port: int, listed: str) -> bool:
    return any(_matches(each.strip(), host.lower(), port) for each in listed.lower().split(","))


def _matches(pattern: str, host: str, port: int) -> bool:
    name, _, pattern_port = pattern.lstrip("*").lstrip(".").partition(":")
    if pattern_port not in {"", str(port)} or not pattern:
        return False
    return pattern == "*" or host == name or host.endswith(f".{name}")
