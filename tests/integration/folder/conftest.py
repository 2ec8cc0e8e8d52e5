"""What the tests of the folder queue share."""

from pathlib import Path

import pytest

from tests.support.folder_queue import FolderHarness


@pytest.fixture
def place(tmp_path: Path) -> FolderHarness:
    """An empty queue."""
    return FolderHarness(tmp_path)
