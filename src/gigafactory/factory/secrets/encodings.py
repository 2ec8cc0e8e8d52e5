"""Encodings in which a known secret may be printed, and their removal from a stream."""

import base64
import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MARKER = b"[redacted]"
CHARS_MIN = 6
"""Shorter values would match ordinary words."""
LINE_CHARS_MIN = 16
"""In a multi-line secret, a line of at least this length is secret by itself."""
PIECE_BYTES_MAX = 256
"""Longer forms are searched for in pieces, so that little has to be held back."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def encoded_forms(secret: str) -> set[bytes]:
    """Return all byte strings of which at least one occurs in any text that reveals the secret."""
    plain = secret.encode("utf-8", "surrogateescape")
    forms = {plain, *_base64(plain)}
    for written in (
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(plain, safe=""),
        quote(plain),
        quote_plus(plain),
    ):
        forms.add(written.encode("utf-8", "surrogateescape"))
    forms |= {_lower_escapes(form) for form in forms if b"%" in form}
    return {piece for form in forms if len(form) >= CHARS_MIN for piece in _pieces(form)}


def all_encoded_forms(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the encoded forms of all secrets that are long enough, and of their long lines."""
    forms: set[bytes] = set()
    for secret in secrets:
        lines = [line for line in secret.splitlines() if len(line) >= LINE_CHARS_MIN]
        for part in {secret, secret.strip(), *lines}:
            if len(part) >= CHARS_MIN:
                forms |= encoded_forms(part)
    return tuple(sorted(forms, key=lambda form: (len(form), form)))


def _base64(plain: bytes) -> Iterator[bytes]:
    # The encoding depends on where the secret starts within a group of three bytes. Characters that
    # also depend on neighbouring bytes are cut off at both ends.
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * before + plain)
        core = whole[skipped : (before + len(plain)) * 8 // 6]
        yield core
        yield core.translate(_URL_SAFE)


def _lower_escapes(form: bytes) -> bytes:
    first, *rest = form.split(b"%")
    return b"%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _pieces(form: bytes) -> Iterator[bytes]:
    last = len(form) - PIECE_BYTES_MAX
    if last <= 0:
        yield form
        return
    for start in (*range(0, last, PIECE_BYTES_MAX), last):
        yield form[start : start + PIECE_BYTES_MAX]


class KnownSecretRedactor:
    """Replaces every known form in a stream, even one that is split over several chunks."""

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._forms = secrets
        self._held = b""
        self._covered = -1
        """How far a secret already reaches into the held text; -1: not at all."""

    def feed(self, data: bytes) -> bytes:
        """Return what is safe to pass on; hold back an end that may be the start of a secret."""
        if not self._forms:
            return data
        self._held += data
        return self._pass_on(min(self._partial_start(form) for form in self._forms))

    def finish(self) -> bytes:
        """Return the rest."""
        return self._pass_on(len(self._held))

    def _pass_on(self, until: int) -> bytes:
        text, passed, at = self._held, [], max(self._covered, 0)
        for start, end in sorted(self._found(until)):
            if start > self._covered:
                passed += [text[at:start], MARKER]
            self._covered = max(self._covered, end)
            at = self._covered
        passed.append(text[at:until])
        self._held = text[until:]
        self._covered = max(self._covered - until, -1)
        return b"".join(passed)

    def _found(self, until: int) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            for start in _starts(self._held, form, until):
                yield start, start + len(form)

    def _partial_start(self, form: bytes) -> int:
        text = self._held
        at = text.find(form[:1], max(0, len(text) - len(form) + 1))
        while at >= 0 and not form.startswith(text[at:]):
            at = text.find(form[:1], at + 1)
        return at if at >= 0 else len(text)


def _starts(text: bytes, form: bytes, until: int) -> Iterator[int]:
    # Matches may overlap, so each search continues right after the previous start.
    start = text.find(form)
    while 0 <= start < until:
        yield start
        start = text.find(form, start + 1)
