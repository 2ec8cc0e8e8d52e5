"""What tools print about themselves: their version, and the flags in their help."""

import re
from collections.abc import Iterable

VERSION_CHARS_MAX = 60

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_ASIDE = re.compile(r"\([^()]*\)")
_DOTTED = re.compile(r"(?<![\w.])v?([0-9]{1,12}(?:\.[0-9]{1,12}){1,5})")
_NUMBER = re.compile(r"\s*v?([0-9]{1,12})\s*")
_JAVA = re.compile(r"\b(?:openjdk|java)(?: version)? \"?([0-9]{1,6}(?:[._][0-9]{1,6}){0,4})")
_GO = re.compile(r"\bgo([0-9]{1,6}(?:\.[0-9]{1,6}){1,3})")


def strip_escapes(text: str) -> str:
    """The text as a reader sees it, without what a terminal obeys."""
    return _ESCAPE.sub("", text)


def parse_version(text: str) -> str | None:
    """The version in what most tools print; what stands in brackets counts last.

    `gcc (Debian 12.2.0-14) 12.3.0` is 12.3.0, `Poetry (version 1.7.1)` is 1.7.1.
    """
    for line in strip_escapes(text).splitlines():
        found = _DOTTED.search(_ASIDE.sub(" ", line)) or _DOTTED.search(line)
        found = found or _NUMBER.fullmatch(line)
        if found:
            return found[1][:VERSION_CHARS_MAX].rstrip(".")
    return None


def parse_java_version(text: str) -> str | None:
    """The version of a Java; the old `1.8.0_392` is what everybody calls 8."""
    found = _JAVA.search(strip_escapes(text))
    return found[1].replace("_", ".").removeprefix("1.") if found else None


def parse_go_version(text: str) -> str | None:
    """The version of Go, which stands right after its name."""
    found = _GO.search(strip_escapes(text))
    return found[1] if found else None


def missing_flags(help_text: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The flags that a help text does not name; `--json-schema` does not stand for `--json`."""
    text = strip_escapes(help_text)
    return tuple(
        flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text)
    )
