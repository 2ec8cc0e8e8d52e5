"""What a terminal obeys instead of showing it, and texts without it."""

import re

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|$)|[@-Z\\-_]|[ -/]+[0-~])", re.DOTALL
)
"""They could move the cursor, set the clipboard or rename the window."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def bare(text: str) -> str:
    """A text without escapes and control characters; its lines stay lines."""
    return CONTROL.sub("", ESCAPES.sub("", text))


_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def colourless(text: str) -> str:
    """A text of ours for what is no terminal: as it is, without its colours."""
    return _SEQUENCE.sub("", text)


_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def harmless(line: str) -> str:
    """A line of a log with its colours and nothing else that a terminal would obey."""
    kept = _SGR.findall(line)
    parts = _SGR.split(line)
    return "".join(bare(text) + colour for text, colour in zip(parts, [*kept, ""], strict=True))
