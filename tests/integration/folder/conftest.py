"""What the tests of the folder queue share."""

from pathlib import Path

import pytest

from tests.support.folder_queue import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty queue."""
    return Place(tmp_path)
