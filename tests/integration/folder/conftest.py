"""Fixtures of the folder queue tests."""

from pathlib import Path

import pytest

from tests.support.folder_queue import FolderHarness


@pytest.fixture
def place(tmp_path: Path) -> FolderHarness:
    """An empty folder queue."""
    return FolderHarness(tmp_path)
