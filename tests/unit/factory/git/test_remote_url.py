"""Remote addresses that git may use, and addresses that it never may."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.errors import Forbidden
from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.git.remote_url import (
    AddressRefused,
    AllowedRemotes,
    RemoteAddress,
    parse_address,
)

LOCAL = AllowedRemotes(folders=AllowedFolders(roots=(Path("/srv/repos"),)))


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port"),
    [
        ("https://example.com/acme/notes.git", "https", "example.com", 443),
        ("https://example.com:8443/acme/notes", "https", "example.com", 8443),
        ("https://192.168.1.20/acme/notes", "https", "192.168.1.20", 443),
        ("ssh://git@example.com:2222/acme/notes.git", "ssh", "example.com", 2222),
        ("git@example.com:acme/notes.git", "ssh", "example.com", 22),
    ],
)
def test_https_and_ssh_addresses_are_accepted(text: str, scheme: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == RemoteAddress(url=text, scheme=scheme, host=host, port=port)
    assert address.name == "notes"


@pytest.mark.parametrize("text", ["/srv/repos/notes.git", "file:///srv/repos/notes.git"])
def test_local_repo_is_accepted_only_in_an_allowed_folder(text: str) -> None:
    address = parse_address(text, LOCAL)
    assert (address.url, address.scheme) == ("/srv/repos/notes.git", "file")
    with pytest.raises(Forbidden, match="allowed: none"):
        parse_address(text)


def test_plain_protocols_and_loopback_hosts_are_accepted_only_when_allowed() -> None:
    allowed = AllowedRemotes(plain=True, hosts=("LocalHost", "127.0.0.1"))
    assert parse_address("http://localhost:3000/x/notes.git", allowed).trusted
    assert parse_address("git://127.0.0.1/notes.git", allowed).scheme == "git"
    with pytest.raises(AddressRefused, match="allow it by name"):
        parse_address("http://[::1]/notes.git", allowed)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 1000 characters"),
        ("x" * 1001, "1 to 1000 characters"),
        ("https://example.com/a\nb", "without control characters"),
        ("https://example.com/a\x00b", "without control characters"),
        ("--upload-pack=touch /tmp/x", "looks like an option"),
        ("-oProxyCommand=x", "looks like an option"),
        ("ext::sh -c x", "transport helpers"),
        ("ssh://-oProxyCommand=x/y", "such as ssh://host"),
        ("git@-oProxyCommand=x:y", "a repo's name, an https"),
        ("https://token@example.com/x", "without a user or secret"),
        ("https://user:s3cr3t@example.com/x", "without a user or secret"),
        ("https://example.com:99999/x", "1 to 65535"),
        ("ftp://example.com/x", "ftp:// is not allowed"),
        ("http://example.com/x", "use https or ssh"),
        ("git://example.com/x", "use https or ssh"),
        ("acme/notes", "use an https or ssh URL"),
        ("~/notes", "use an https or ssh URL"),
        ("../notes", "without `..`"),
        ("/srv/repos/../../etc", "without `..`"),
        ("/srv/repositories/x", "allowed: /srv/repos"),
        ("file:///etc", "allowed: /srv/repos"),
        (r"C:\repos\x", "allowed: /srv/repos"),
    ],
)
def test_invalid_address_is_rejected_with_the_allowed_forms(text: str, why: str) -> None:
    with pytest.raises((AddressRefused, Forbidden)) as caught:
        parse_address(text, LOCAL)
    assert why in caught.value.detail
    assert "s3cr3t" not in caught.value.detail


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "api.localhost",
        "127.0.0.1",
        "127.8.8.8",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",  # noqa: S104 - refused, not bound
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "metadata.google.internal",
        "metadata",
    ],
)
def test_loopback_and_metadata_hosts_are_rejected(host: str) -> None:
    for url in (f"https://{host}/x/notes.git", f"ssh://git@{host}/x/notes.git"):
        with pytest.raises(AddressRefused):
            parse_address(url)


@given(st.text(max_size=60))
def test_no_address_becomes_an_option_or_a_transport_helper(text: str) -> None:
    try:
        address = parse_address(
            text, AllowedRemotes(folders=AllowedFolders(roots=(Path("/srv"),)), plain=True)
        )
    except (AddressRefused, Forbidden):
        return
    assert not address.url.startswith("-")
    assert "::" not in address.url.split("/")[0]


@pytest.mark.parametrize(
    ("prefix", "below"),
    [
        ("https://example.com", True),
        ("https://example.com/", True),
        ("https://example.com/acme", True),
        ("https://example.com/acme/notes.git", True),
        ("https://example.com/ac", False),
        ("https://example", False),
        ("http://example.com", False),
    ],
)
def test_address_prefix_matches_only_whole_segments(prefix: str, below: bool) -> None:  # noqa: FBT001
    assert parse_address("https://example.com/acme/notes.git").is_below(prefix) is below
