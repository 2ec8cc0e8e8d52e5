"""DNS pinning: a host is resolved once, and git connects to the checked address, also over ssh."""

import os
import shlex
import socket
from pathlib import Path

import pytest

from gigafactory.factory.git import dns_pinning
from gigafactory.factory.git.dns_pinning import pin_addresses, pin_ssh
from gigafactory.factory.git.errors import RemoteUnavailable
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.remote_url import AddressRefused, parse_address

PUBLIC, HERE = "192.0.2.7", "127.0.0.1"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses by host name; they replace DNS."""
    known: dict[str, str] = {}

    async def looked_up(host: str, port: int | None) -> list[str]:
        if host not in known:
            raise RemoteUnavailable(("ls-remote",), None, "unknown")
        found = socket.getaddrinfo(known[host], port, type=socket.SOCK_STREAM)
        return [str(found[0][4][0])]

    monkeypatch.setattr(dns_pinning, "_look_up", looked_up)
    return known


def an_ssh(folder: Path, *configuration: str) -> str:
    """Return a program that answers `-G` like ssh and otherwise records its arguments."""
    program, notes = folder / "ssh", folder / "arguments"
    answer = "\n".join(configuration)
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" -G "*) printf "%s\\n" {shlex.quote(answer)}; exit;; esac\n'
        f'printf "%s\\n" "$@" > {shlex.quote(str(notes))}\nexit 1\n'
    )
    program.chmod(0o755)
    return str(program)


async def test_ssh_connects_to_the_checked_address_under_the_name_of_the_host(
    tmp_path: Path, names: dict[str, str]
) -> None:
    names["git.example.com"] = PUBLIC
    git = Git(ssh=an_ssh(tmp_path, "hostname git.example.com", "port 22"))
    address = parse_address("git@git.example.com:acme/notes.git")
    await git.run("ls-remote", address.url, address=address, codes=(0, 128))
    said = (tmp_path / "arguments").read_text().splitlines()
    assert f"Hostname={PUBLIC}" in said
    assert "HostKeyAlias=git.example.com" in said
    assert "git@git.example.com" in said


async def test_ssh_host_that_is_this_machine_is_refused(
    tmp_path: Path, names: dict[str, str]
) -> None:
    names["git.example.com"] = HERE
    address = parse_address("ssh://git@git.example.com/acme/notes.git")
    with pytest.raises(AddressRefused, match="resolves to 127"):
        await pin_ssh(address, an_ssh(tmp_path, "hostname git.example.com"), os.environ)


async def test_configuration_of_the_user_is_respected(
    tmp_path: Path, names: dict[str, str]
) -> None:
    names["ssh.example.com"] = PUBLIC
    ssh = an_ssh(tmp_path, "hostname ssh.example.com", "port 443")
    address = parse_address("git@git.example.com:acme/notes.git")
    pinned = await pin_ssh(address, ssh, os.environ)
    assert shlex.split(pinned)[1:] == [
        *("-o", f"Hostname={PUBLIC}"),
        *("-o", "HostKeyAlias=[ssh.example.com]:443"),
    ]
    behind = an_ssh(tmp_path, "hostname ssh.example.com", "proxyjump bastion")
    assert await pin_ssh(address, behind, os.environ) == behind


async def test_host_that_cannot_be_looked_up_is_not_left_to_ssh(
    tmp_path: Path, names: dict[str, str]
) -> None:
    assert names == {}, "a name server that fails now may answer ssh with this machine"
    address = parse_address("git@work:acme/notes.git")
    for ssh in (an_ssh(tmp_path, "hostname work"), str(tmp_path / "none")):
        with pytest.raises(RemoteUnavailable):
            await pin_ssh(address, ssh, os.environ)


async def test_https_connects_to_the_checked_address(names: dict[str, str]) -> None:
    names["git.example.com"] = PUBLIC
    address = parse_address("https://git.example.com/acme/notes.git")
    [(_, pinned)] = await pin_addresses(address, proxied=False)
    assert pinned == f"git.example.com:443:{PUBLIC}"
    names["git.example.com"] = "64:ff9b::7f00:1"
    with pytest.raises(AddressRefused):
        await pin_addresses(address, proxied=False)
