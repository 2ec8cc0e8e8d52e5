"""Lines of a run's log: those of the factory begin with `aq: `, and no program can print one."""

import re

from gigafactory.system.terminal_escapes import strip_escapes

OWN = "aq: "
FOREIGN = "| "
"""Comes before a program's line that would look like one of the factory."""

_INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def format_own_line(line: str) -> str:
    """Return a line of the factory; further lines of its text are indented."""
    return OWN + f"\n{OWN}  ".join(line.splitlines() or [""]) + "\n"


def format_program_output(text: str) -> str:
    """Return the lines of a program, with a mark before those that look like the factory's."""
    return "".join(f"{_marked(line)}\n" for line in text.split("\n"))


def _marked(line: str) -> str:
    if line.isascii() and "\x1b" not in line and "\r" not in line:
        return FOREIGN + line if line.lstrip().startswith(OWN.strip()) else line
    # Colours, invisible characters and carriage returns do not show.
    shown = (strip_escapes(_INVISIBLE.sub("", part)).lstrip() for part in line.split("\r"))
    if any(part.startswith(OWN.strip()) for part in shown):
        return FOREIGN + strip_escapes(_INVISIBLE.sub("", line.replace("\r", " ")))
    return line
