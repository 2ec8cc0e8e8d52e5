"""Resolves a host before git does, refuses forbidden addresses, pins git to the checked ones."""

import asyncio
import ipaddress
import shlex
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence

from gigafactory.factory.git.errors import RemoteUnavailable
from gigafactory.factory.git.remote_url import AddressRefused, RemoteAddress
from gigafactory.system.ip_addresses import is_forbidden_ip

_LOOKUP_TIMEOUT_S = 20.0
_SSH_PORT = 22
_NO_PROXY = frozenset({"", "none"})


async def pin_addresses(address: RemoteAddress, *, proxied: bool) -> list[tuple[str, str]]:
    """Return settings that pin git to the addresses that were checked; DNS may change meanwhile.

    Behind a proxy it is the proxy that resolves names. Raises AddressRefused or RemoteUnavailable.
    """
    if address.host is None or address.trusted or proxied:
        return []
    if address.scheme not in {"https", "http"}:
        return []
    addresses = await _checked_addresses(address.host, address.port)
    return [("http.curloptResolve", f"{address.host}:{address.port}:{','.join(addresses)}")]


async def pin_ssh(address: RemoteAddress, ssh: str, environ: Mapping[str, str]) -> str:
    """Return the ssh command that connects to the address that was checked.

    The host key is still looked up by name. Raises AddressRefused or RemoteUnavailable.
    """
    if address.host is None or address.trusted:
        return ssh
    effective = await _ssh_configuration(address, ssh, environ)
    if {effective.get(each, "") for each in ("proxyjump", "proxycommand")} - _NO_PROXY:
        # It is the proxy that resolves names.
        return ssh
    host = effective.get("hostname", address.host)
    port = int(effective.get("port", address.port or _SSH_PORT))
    addresses = await _checked_addresses(host, port)
    named = host if port == _SSH_PORT else f"[{host}]:{port}"
    alias = effective.get("hostkeyalias", named)
    return f"{ssh} {shlex.join(('-o', f'Hostname={addresses[0]}', '-o', f'HostKeyAlias={alias}'))}"


async def _ssh_configuration(
    address: RemoteAddress, ssh: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return what ssh would do for this host by the configuration of the user; empty if unknown."""
    port = () if address.port in {None, _SSH_PORT} else ("-p", str(address.port))
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(ssh),
            *("-G", *port, "--", str(address.host)),
            env=environ,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
        )
    except OSError:
        return {}
    try:
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return {}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    pairs = (line.partition(" ") for line in output.decode("utf-8", "replace").splitlines())
    return {key: value for key, _, value in pairs}


async def _checked_addresses(host: str, port: int | None) -> Sequence[str]:
    addresses = await _look_up(host, port)
    for ip in addresses:
        if is_forbidden_ip(ipaddress.ip_address(ip.partition("%")[0])):
            raise AddressRefused(
                f"{host} resolves to {ip}, which is this machine or a metadata service;"
                " name another host, or allow it by name"
            )
    return addresses


async def _look_up(host: str, port: int | None) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        raise RemoteUnavailable(
            ("ls-remote",), None, f"could not resolve host {host}: {error}"
        ) from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))
