"""The allow list of hosts that a sandboxed program may reach."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.errors import Invalid
from gigafactory.factory.sandbox.allow_list import AllowList, Destination, is_public


def permitted(to: str, *listed: str) -> bool:
    return AllowList.parse(listed).permits(Destination.parse(to))


@pytest.mark.parametrize(
    ("listed", "to"),
    [
        ("api.example.com", "api.example.com:443"),
        ("api.example.com", "API.Example.COM.:80"),
        ("*.example.com", "registry.example.com:443"),
        ("*.example.com", "a.b.example.com:443"),
        ("git.example.com:8443", "git.example.com:8443"),
        ("*.example.com:22", "git.example.com:22"),
        ("10.1.2.3:5432", "10.1.2.3:5432"),
        ("[fd00::1]", "[fd00:0:0::1]:443"),
        ("localhost:11434", "127.0.0.1:11434"),
        ("127.0.0.1:11434", "localhost:11434"),
    ],
)
def test_listed_host_is_permitted(listed: str, to: str) -> None:
    assert permitted(to, listed)


@pytest.mark.parametrize(
    ("listed", "to"),
    [
        ("api.example.com", "api.example.com:22"),
        ("api.example.com", "evil-api.example.com:443"),
        ("api.example.com", "api.example.com.evil.net:443"),
        ("*.example.com", "example.com:443"),
        ("*.example.com", "evilexample.com:443"),
        ("git.example.com:8443", "git.example.com:443"),
        ("localhost:11434", "localhost:11435"),
    ],
)
def test_similar_but_unlisted_host_is_not_permitted(listed: str, to: str) -> None:
    assert not permitted(to, listed)


@given(st.from_regex(r"[a-z0-9.-]{1,40}:[0-9]{1,5}", fullmatch=True))
def test_empty_list_permits_nothing(written: str) -> None:
    try:
        to = Destination.parse(written)
    except ValueError:
        return
    assert not AllowList().permits(to)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "expected a name"),
        ("http://example.com", "expected a host"),
        ("example.com/path", "expected a name"),
        ("exa mple.com", "expected a name"),
        ("example.com:0", "from 1 to 65535"),
        ("example.com:70000", "from 1 to 65535"),
        ("*", "expected a name"),
        ("*.0.0.1", "expected a name after"),
        ("a.*.com", "expected a name"),
        ("localhost", "expected a port of this machine, from 1024"),
        ("127.0.0.1:80", "expected a port of this machine, from 1024"),
        ("[::zz]", "zz"),
    ],
)
def test_invalid_host_is_rejected_with_its_place_in_the_list(written: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        AllowList.parse(["fine.example.com", written])
    [fault] = refused.value.faults
    assert fault.field == "factory.allow-hosts[1]"
    assert said in fault.message


@pytest.mark.parametrize(
    "written", ["example.com", "no port", ":443", "a\nb:443", "x" * 300 + ":1"]
)
def test_destination_needs_a_host_and_a_port(written: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Destination.parse(written)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1"),  # noqa: S104
        *("192.168.1.1", "169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200"),
        *("168.63.129.16", "100.64.0.1", "224.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fe80::1%eth0"),
    ],
)
def test_host_name_cannot_lead_to_a_private_address(address: str) -> None:
    assert not AllowList.parse(["*.example.com", "rebound.example.com"]).permits_address(
        address, 443
    )


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_host_name_can_lead_to_a_public_address(address: str) -> None:
    assert AllowList().permits_address(address, 443)


def test_private_address_is_permitted_only_when_listed_itself() -> None:
    listed = AllowList.parse(["git.corp.example", "10.0.0.5", "10.0.0.6:8443"])
    assert listed.permits_address("10.0.0.5", 443)
    assert listed.permits_address("10.0.0.6", 8443)
    assert not listed.permits_address("10.0.0.6", 443)
    assert not listed.permits_address("10.0.0.7", 443)


@given(st.ip_addresses(v=4))
def test_mapped_address_is_as_public_as_its_original(ip: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.ip_address(f"::ffff:{ip}")
    assert is_public(mapped) == is_public(ip)


def test_loopback_ports_of_the_list_are_known() -> None:
    listed = AllowList.parse(["localhost:9000", "127.0.0.1:8000", "example.com:7000", "[::1]:6000"])
    assert listed.loopback_ports == (8000, 9000)
