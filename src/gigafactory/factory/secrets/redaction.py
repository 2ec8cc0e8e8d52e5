"""Redaction: removes known secrets and whatever looks like a credential."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gigafactory.factory.secrets.encodings import (
    CHARS_MIN,
    MARKER,
    KnownSecretRedactor,
    all_encoded_forms,
)
from gigafactory.factory.secrets.patterns import PATTERNS, CredentialPattern

FIRST_KEYWORDS = {shape.first_keyword for shape in PATTERNS}
KEY_BYTES_MAX = 16 * 1024
"""A private key without an end within this length is not treated as one."""
NUMBER_CHARS_MAX = 12
"""A shorter number, as in MAX_TOKENS, is a setting and not a secret."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|api_?key|access_?key|private_?key|auth_?key"
    # PWD alone is the folder in which a shell started us.
    r"|(?:^|_)(?:key|pat|dsn|auth)$|_pwd$",
    re.IGNORECASE,
)


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of all variables whose names suggest a secret."""
    return tuple(
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and len(value) >= CHARS_MIN and not _is_setting(value)
    )


def _is_setting(value: str) -> bool:
    return value.isdecimal() and len(value) < NUMBER_CHARS_MAX


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without secrets and credentials."""
    redactor = Redactor(secrets)
    raw = text.encode("utf-8", "surrogateescape")
    return (redactor.feed(raw) + redactor.finish()).decode("utf-8", "surrogateescape")


class Redactor:
    """Redacts a stream; the result does not depend on how it is cut into chunks."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._exact = KnownSecretRedactor(_encoded(tuple(secrets)))
        self._patterns = PatternRedactor()

    def feed(self, data: bytes) -> bytes:
        """Return what is safe to pass on; hold back the rest until more is known."""
        return self._patterns.feed(self._exact.feed(data))

    def finish(self) -> bytes:
        """Return what was held back."""
        return self._patterns.feed(self._exact.finish()) + self._patterns.finish()


@lru_cache(maxsize=16)
def _encoded(secrets: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the encoded forms of the secrets; those of a factory are needed for each path."""
    return all_encoded_forms(secrets)


class PatternRedactor:
    """Replaces everything in a stream that looks like a credential."""

    def __init__(self) -> None:
        self._text = b""
        self._at = 0
        """How much of the text was already passed on: one byte stays, for look-behinds."""
        self._within: CredentialPattern | None = None
        self._swallowed = 0

    def feed(self, data: bytes) -> bytes:
        """Return what is safe to pass on."""
        self._text += data
        return self._pass_on(final=False)

    def finish(self) -> bytes:
        """Return what was held back."""
        passed = self._pass_on(final=True)
        self._text, self._at, self._within = b"", 0, None
        return passed

    def _pass_on(self, *, final: bool) -> bytes:
        passed: list[bytes] = []
        upcoming = _Upcoming(self._text)
        until = len(self._text) if final else -1
        while self._leave():
            if until < self._at:
                until = min(shape.partial_start(self._text, self._at) for shape in PATTERNS)
            hit = upcoming.first(self._at, until)
            if hit is None:
                passed.append(self._text[self._at : until])
                self._at = until
                break
            shape, match = hit
            passed += [self._text[self._at : match.end(1)], MARKER]
            self._at = match.end(2)
            self._within, self._swallowed = shape, 0
        overlap = min(self._at, 1)
        self._text, self._at = self._text[self._at - overlap :], overlap
        return b"".join(passed)

    def _leave(self) -> bool:
        """Skip the rest of the current credential; return False if it may continue."""
        if self._within is None:
            return True
        follows, until = self._within.follows, self._within.until
        rest = follows.match(self._text, self._at) if follows else None
        if rest is None:
            self._within = None
        elif until is not None:
            self._leave_key(rest.end(), until)
        else:
            self._at = rest.end()
            if self._at < len(self._text):
                self._within = None
        return self._within is None

    def _leave_key(self, stop: int, until: CredentialPattern) -> None:
        last = self._at + KEY_BYTES_MAX - self._swallowed
        over = min(stop, last)
        end = until.regex.search(self._text, self._at, over)
        if end is not None:
            self._at, self._within = end.end(), None
        elif over == last or over < len(self._text):
            self._at, self._within = over, None
        else:
            held = until.partial_start(self._text, self._at)
            self._swallowed += held - self._at
            self._at = held


class _Upcoming:
    """The next match of each pattern, searched for once per stretch of text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        present = {words: words.occurs_in(text) for words in FIRST_KEYWORDS}
        self._next: dict[CredentialPattern, re.Match[bytes] | None] = {
            shape: None for shape in PATTERNS if not present[shape.first_keyword]
        }

    def first(self, at: int, until: int) -> tuple[CredentialPattern, re.Match[bytes]] | None:
        """Return the first match that starts at or after `at` and before `until`."""
        best: tuple[CredentialPattern, re.Match[bytes]] | None = None
        for shape in PATTERNS:
            match = self._after(shape, at)
            if match and match.start() < until and (not best or match.start() < best[1].start()):
                best = shape, match
        return best

    def _after(self, shape: CredentialPattern, at: int) -> re.Match[bytes] | None:
        match = self._next.get(shape)
        if shape not in self._next or (match is not None and match.start() < at):
            match = self._next[shape] = shape.regex.search(self._text, at)
        return match
