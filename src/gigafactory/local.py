"""The files in the data folder by which commands find the coordinator of this machine."""

from pathlib import Path

ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file
SERVER_URL = "server.url"


def read_line(file: Path) -> str | None:
    """The one line of such a file; None when there is none to read."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
