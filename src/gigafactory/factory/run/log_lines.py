"""Lines of a run's log: those of the factory begin with `aq: `, and no program can print one."""

import re
import unicodedata

from gigafactory.system.terminal_escapes import strip_escapes

OWN = "aq: "
FOREIGN = "| "
"""Comes before a program's line that would look like one of the factory."""

_MARK = OWN.strip()
_PLAIN = re.compile(r"[\t\x20-\x7e]*")
# After any of them, a terminal or a page goes on at the left.
_LINE_STARTS = re.compile(
    r"[\b\v\f\r\x1c-\x1e\x85\u2028\u2029]|\x1b\[[0-?]*[ -/]*[@-ln-~]|\x1b[78DEMc]"
)
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"))
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
# Letters of other alphabets that look the same, besides those that Unicode itself calls alike.
_ALIKE = {
    **dict.fromkeys("\u0251\u03b1\u0430\u237a", "a"),
    **dict.fromkeys("\u051b\u0563\u0566", "q"),
    **dict.fromkeys("\u02d0\u0589\u05c3\u0703\u2236\ua789", ":"),
}


def format_own_line(line: str) -> str:
    """Return a line of the factory; further lines of its text are indented."""
    return OWN + f"\n{OWN}  ".join(line.splitlines() or [""]) + "\n"


def format_program_output(text: str) -> str:
    """Return the lines of a program, with a mark before those that look like the factory's."""
    return "".join(f"{_marked(line)}\n" for line in text.split("\n"))


def _marked(line: str) -> str:
    if _PLAIN.fullmatch(line):
        return FOREIGN + line if line.lstrip().startswith(_MARK) else line
    if any(_begins_like_ours(part) for part in _LINE_STARTS.split(line)):
        return FOREIGN + strip_escapes(_LINE_STARTS.sub(" ", line))
    return line


def _begins_like_ours(text: str) -> bool:
    """Return whether what is seen of a text begins with the mark of the factory."""
    expected = iter(_MARK)
    wanted = next(expected)
    for char in strip_escapes(text):
        if char in _BLANK or unicodedata.category(char) in _UNSEEN:
            continue
        if _ALIKE.get(char, unicodedata.normalize("NFKC", char)) != wanted:
            return False
        if (wanted := next(expected, "")) == "":
            return True
    return False
