"""URLs of coordinators: unencrypted ones to other machines are recognised."""

import pytest

from gigafactory.config.data_dir import is_plain_text


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        *(("http://127.0.0.1:8790", False), ("http://localhost", False), ("http://[::1]:1", False)),
        *(("https://fleet.example.com", False), ("http://gigafactory-1.localhost:8790", False)),
        *(("http://fleet.example.com", True), ("http://10.0.0.1:8790/x", True)),
        *(("http://localhost@fleet.example.com", True), ("http://[fd00::1]:8790", True)),
    ],
)
def test_unencrypted_urls_to_other_machines_are_recognised(url: str, *, plain: bool) -> None:
    assert is_plain_text(url) is plain
