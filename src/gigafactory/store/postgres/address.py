"""Addresses of PostgreSQL databases, with one host or several."""

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

PORT = 5432
_PORT = re.compile(r":\d+$")


def single_hosts(dsn: str) -> tuple[str, ...]:
    """Return one address for each host of an address, in the same order."""
    parts = urlsplit(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    names = (hosts or query.get("host", "")).split(",")
    ports = query.get("port", "").split(",")
    if len(names) == 1 or len(ports) not in {1, len(names)}:
        return (dsn,)
    if len(ports) == 1:
        ports *= len(names)
    found = []
    for name, port in zip(names, ports, strict=True):
        own = {"host": name} if not hosts else {}
        own |= {"port": port} if port else {}
        netloc = f"{login}{at}{name}" if hosts else parts.netloc
        found.append(parts._replace(netloc=netloc, query=urlencode(query | own)).geturl())
    return tuple(found)


def name_of(dsn: str) -> str:
    """Return hosts, ports and database of an address, without the password."""
    parts = [urlsplit(each) for each in single_hosts(dsn)]
    return ",".join(map(_host_and_port, parts)) + parts[0].path


def _host_and_port(parts: SplitResult) -> str:
    query = dict(parse_qsl(parts.query))
    host = parts.netloc.rpartition("@")[2] or query.get("host", "localhost")
    if _PORT.search(host) and not host.endswith("]"):
        return host
    return f"{host}:{query.get('port', PORT)}"
