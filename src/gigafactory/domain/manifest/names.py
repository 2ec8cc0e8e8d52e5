"""Checks of names, texts and paths in a manifest: each returns the value or raises ValueError."""

import re
import unicodedata

NAME_CHARS_MAX = 100

_SLUG = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{NAME_CHARS_MAX - 1}}}")
_REFERENCE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARS_MAX - 1}}}")
_PERSON = re.compile(r"@?([A-Za-z0-9][A-Za-z0-9._+@-]{0,99})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_PROFILE = re.compile(rf"({_SLUG.pattern})(?:@([1-9][0-9]{{0,8}}))?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]")
_DOTS = re.compile(r"\.{2,}")
_NOT_SLUG = re.compile(r"[^a-z0-9._]+")
# Line and paragraph ends, and bidirectional marks that reorder the displayed text.
_DECEIVING = frozenset("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def slug(text: str) -> str:
    """Return a name that is safe in files, branches and URLs."""
    if not _SLUG.fullmatch(text) or ".." in text:
        raise ValueError(
            "a name of at most 100 lower-case letters, digits, dots, dashes and underscores,"
            " that begins with a letter or digit and has no two dots together"
        )
    return text


def slugify(text: str) -> str | None:
    """Return the slug closest to a text, or None if no character can be kept."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    dashed = _DOTS.sub(".", _NOT_SLUG.sub("-", plain))
    return dashed.strip("-._")[:NAME_CHARS_MAX].rstrip("-._") or None


def reference(text: str) -> str:
    """Return the id or name of a job."""
    if not _REFERENCE.fullmatch(text) or ".." in text:
        raise ValueError("the id or name of a job")
    return text


def person(text: str) -> str:
    """Return the name of a person without a leading `@`."""
    match = _PERSON.fullmatch(text)
    if match is None:
        raise ValueError("a person such as @alice")
    return match[1]


def variable(text: str) -> str:
    """Return the name of an environment variable; values are refused."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError("the name of a variable alone: values never appear in a manifest")
    return text


def profile_reference(text: str) -> tuple[str, int | None]:
    """Split `name` or `name@version`."""
    match = _PROFILE.fullmatch(text)
    if match is None or ".." in text:
        raise ValueError("the name of a profile, or name@version")
    return match[1], int(match[2]) if match[2] else None


def line(text: str, *, chars_max: int) -> str:
    """Return one line of text, stripped and without control characters."""
    stripped = text.strip()
    if not stripped or len(stripped) > chars_max:
        raise ValueError(f"a text of 1 to {chars_max} characters")
    if _has_control_characters(stripped):
        raise ValueError("one line of text without control characters")
    return stripped


def option_free_line(text: str, *, chars_max: int) -> str:
    """Return a line that does not begin with a dash, so that it is no option."""
    if text.strip().startswith("-"):
        raise ValueError("a text that does not begin with a dash")
    return line(text, chars_max=chars_max)


def script(text: str, *, chars_max: int) -> str:
    """Return a shell command of one or more lines."""
    if not text.strip() or len(text) > chars_max:
        raise ValueError(f"a command of 1 to {chars_max} characters")
    if _has_control_characters(text.replace("\n", " ").replace("\t", " ").replace("\r", " ")):
        raise ValueError("a command without control characters")
    return text


def absolute_path(text: str) -> str:
    """Return an absolute path without `..`."""
    path = line(text, chars_max=1000)
    if not _ABSOLUTE.match(path) or has_parent_segment(path):
        raise ValueError("an absolute path without `..`")
    return path


def glob(text: str) -> str:
    """Return a glob that stays within the worktree."""
    pattern = line(text, chars_max=300)
    if _ABSOLUTE.match(pattern) or has_parent_segment(pattern) or pattern.startswith(("-", "~")):
        raise ValueError("a name or pattern below the worktree, such as src/**")
    return pattern


def has_parent_segment(path: str) -> bool:
    """Return whether a path contains `..`."""
    return ".." in path.replace("\\", "/").split("/")


def _has_control_characters(text: str) -> bool:
    return not text.isprintable() and any(
        unicodedata.category(char) == "Cc" or char in _DECEIVING for char in text
    )
