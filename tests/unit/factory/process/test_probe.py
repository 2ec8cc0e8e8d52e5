"""Systems that cannot run jobs hear of it before any begins."""

import pytest

from gigafactory.factory.process.probe import UnsupportedSystem, require_posix


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_where_processes_have_groups_jobs_are_run(platform: str) -> None:
    require_posix(platform)


def test_windows_is_told_what_to_do_instead() -> None:
    with pytest.raises(UnsupportedSystem, match=r"no process groups.*use WSL"):
        require_posix("win32")
