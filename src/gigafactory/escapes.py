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
