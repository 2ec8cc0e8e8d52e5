"""Choice of a proxy by the usual environment variables."""

import pytest

from gigafactory.client.transport.problems import Unreachable
from gigafactory.client.transport.proxy import proxy_for

PROXY = "http://ann:s%20cret@gate.example:3128"


@pytest.mark.parametrize(
    ("environ", "url", "through"),
    [
        ({}, ("https", "fleet.example", 443), None),
        ({"HTTPS_PROXY": PROXY}, ("https", "fleet.example", 443), "gate.example"),
        ({"https_proxy": "gate.example"}, ("https", "fleet.example", 443), "gate.example"),
        ({"HTTPS_PROXY": PROXY}, ("http", "fleet.example", 80), None),
        ({"ALL_PROXY": PROXY}, ("http", "fleet.example", 80), "gate.example"),
        ({"HTTPS_PROXY": ""}, ("https", "fleet.example", 443), None),
        ({"ALL_PROXY": PROXY}, ("http", "127.0.0.1", 8790), None),
        ({"ALL_PROXY": PROXY}, ("http", "localhost", 8790), None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, ("https", "fleet.example", 443), None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "x, .example"}, ("https", "fleet.example", 443), None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*.example"}, ("https", "fleet.example", 443), None),
        (
            {"ALL_PROXY": PROXY, "NO_PROXY": "eet.example"},
            ("https", "fleet.example", 443),
            "gate.example",
        ),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "example:443"}, ("https", "fleet.example", 443), None),
        (
            {"ALL_PROXY": PROXY, "NO_PROXY": "example:80"},
            ("https", "fleet.example", 443),
            "gate.example",
        ),
    ],
)
def test_proxy_is_chosen_by_the_environment(
    environ: dict[str, str], url: tuple[str, str, int], through: str | None
) -> None:
    found = proxy_for(*url, environ)
    assert (found.host if found else None) == through


def test_proxy_credentials_are_sent_as_basic_authorization() -> None:
    found = proxy_for("https", "fleet.example", 443, {"HTTPS_PROXY": PROXY})
    assert found is not None
    assert found.port == 3128
    assert found.headers == {"proxy-authorization": "Basic YW5uOnMgY3JldA=="}


@pytest.mark.parametrize("address", ["socks5://gate:1080", "http://:3128", "http://gate:none"])
def test_unsupported_proxy_address_names_the_expected_form(address: str) -> None:
    with pytest.raises(Unreachable, match="expected http://HOST:PORT"):
        proxy_for("https", "fleet.example", 443, {"HTTPS_PROXY": address})
