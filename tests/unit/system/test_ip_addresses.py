"""Addresses to which an untrusted host name must not resolve."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.system.ip_addresses import is_forbidden_ip


@given(st.ip_addresses(network="127.0.0.0/8") | st.ip_addresses(network="169.254.0.0/16"))
def test_loopback_and_link_local_addresses_are_forbidden_in_every_spelling(
    ip: ipaddress.IPv4Address,
) -> None:
    number = int(ip)
    high, low = number >> 16, number & 0xFFFF
    assert is_forbidden_ip(ip)
    for spelling in (
        f"::ffff:{ip}",
        f"64:ff9b::{ip}",
        f"64:ff9b:1::{ip}",
        f"::ffff:0:{ip}",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::1",
        f"2001:0:4136:e378:8000:63bf:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
    ):
        assert is_forbidden_ip(ipaddress.ip_address(spelling)), spelling


@pytest.mark.parametrize(
    "ip", ["140.82.121.4", "64:ff9b::8c52:7904", "2606:50c0::1", "10.0.0.1", "fd00::1"]
)
def test_other_machines_are_not_forbidden(ip: str) -> None:
    assert not is_forbidden_ip(ipaddress.ip_address(ip))
