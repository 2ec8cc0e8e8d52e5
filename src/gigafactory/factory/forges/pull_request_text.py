"""Title and body of a pull request: the agent's if it wrote them, else the job's."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from gigafactory.factory.forges.forge import PullRequestText
from gigafactory.factory.secrets.redaction import redact

TITLE_CHARS_MAX = 250
BODY_CHARS_MAX = 60_000
FILE_BYTES_MAX = 256 * 1024
FOLDER, FILE = ".aq", "pr.md"
KEPT = f"{FOLDER}/{FILE}"
"""Where an agent writes them in its worktree, and where they are kept in the job's home."""

_MARKER = re.compile(r"<!--\s*aq:.*?(?:-->|$)", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+")


def marker(job: str, run: str) -> str:
    """Return an invisible marker that identifies the run that wrote a text."""
    return f"<!-- aq:{job}:{run} -->"


def build_text(
    written: str | None, *, title: str, body: str, secrets: Iterable[str] = ()
) -> PullRequestText:
    """Return title and body for people, without secrets and without markers of others."""
    secret_values = tuple(secrets)
    own_title, _, rest = (written or "").lstrip("\ufeff \t\r\n").partition("\n")
    own_title = _line(redact(own_title, secret_values))
    chosen = rest if own_title else body
    headline = own_title or _line(redact(title, secret_values)) or "Work by an agent"
    return PullRequestText(
        _cut(headline, TITLE_CHARS_MAX), _cut(_text(redact(chosen, secret_values)), BODY_CHARS_MAX)
    )


def read_agent_text(place: Path) -> str | None:
    """Return what the agent wrote for the pull request; None for nothing, a link or a pipe."""
    try:
        return _read(place / FOLDER, FILE)
    except OSError:
        return None


def _read(folder: Path, name: str) -> str | None:
    if folder.is_symlink():
        return None
    # A job may put anything there: a link would lead elsewhere, a pipe would block us.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(folder / name, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, FILE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _line(text: str) -> str:
    return " ".join(_HEADING.sub("", _text(text)).split())


def _text(text: str) -> str:
    return _MARKER.sub("", text.replace("\0", "").replace("\r\n", "\n")).strip()


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"
