"""Platforms that cannot run jobs are rejected before any job starts."""

import pytest

from gigafactory.factory.process.probe import UnsupportedSystem, require_posix


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_posix_platforms_are_accepted(platform: str) -> None:
    require_posix(platform)


def test_windows_is_rejected_with_a_hint_to_wsl() -> None:
    with pytest.raises(UnsupportedSystem, match=r"no process groups.*use WSL"):
        require_posix("win32")
