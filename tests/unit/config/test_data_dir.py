"""The coordinator of a data folder: when its owner's token is sent, and over which URLs."""

import fcntl
from pathlib import Path

import pytest

from gigafactory.config.data_dir import coordinator_access, is_plain_text

URL = "http://127.0.0.1:8790"


def token_for(data: Path) -> str | None:
    return coordinator_access(data, URL, url=None, token=None, product=None).token


def test_the_owners_token_is_only_for_a_coordinator_that_runs(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("secret\n")
    assert token_for(tmp_path) == "secret", "an older coordinator holds no lock"
    with (tmp_path / "server.lock").open("w") as lock:
        assert token_for(tmp_path) is None
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert token_for(tmp_path) == "secret"
    assert token_for(tmp_path) is None
    given = coordinator_access(tmp_path, URL, url=None, token="given", product=None)
    assert given.token == "given"


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
