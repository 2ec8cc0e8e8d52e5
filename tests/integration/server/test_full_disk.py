"""A coordinator that starts on a full disk waits until there is space."""

import errno
from collections.abc import Iterator

import pytest

from gigafactory.domain.errors import StoreDiskFull
from gigafactory.wiring import coordinator as wiring
from gigafactory.wiring.coordinator import wait_for_disk


async def test_a_start_on_a_full_disk_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "DISK_CHECK_S", 0.0)
    faults: Iterator[Exception] = iter(
        [StoreDiskFull("the disk is full"), OSError(errno.ENOSPC, "No space left on device")]
    )

    async def start() -> str:
        for fault in faults:
            raise fault
        return "started"

    assert await wait_for_disk(start) == "started"


async def test_other_failures_end_the_start() -> None:
    async def start() -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        await wait_for_disk(start)
