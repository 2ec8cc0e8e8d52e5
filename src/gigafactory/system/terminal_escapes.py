"""Removes terminal escape sequences and control characters from text."""

import re

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|$)|[@-Z\\-_]|[ -/]+[0-~])", re.DOTALL
)
"""They could move the cursor, set the clipboard or rename the window."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def strip_escapes(text: str) -> str:
    """Return a text without escapes and control characters; line breaks stay."""
    return CONTROL.sub("", ESCAPES.sub("", text))


_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def keep_colours_only(line: str) -> str:
    """Return a log line with its colours, but without any other escape."""
    colours = _SGR.findall(line)
    parts = _SGR.split(line)
    return "".join(
        strip_escapes(text) + colour for text, colour in zip(parts, [*colours, ""], strict=True)
    )
