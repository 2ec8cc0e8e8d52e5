"""What must not leave this machine: known secrets, and whatever looks like a credential."""

import re
from collections.abc import Iterable, Mapping

from gigafactory.factory.secrets.encodings import CHARS_MIN, MARKER, KnownSecrets, all_forms
from gigafactory.factory.secrets.patterns import SHAPES, Shape

FIRST_WORDS = {shape.first for shape in SHAPES}
KEY_BYTES_MAX = 16 * 1024
"""A private key that has no end by then is taken to be none."""
NUMBER_CHARS_MAX = 12
"""A shorter number, as in MAX_TOKENS, is a setting and no secret."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|api_?key|access_?key|private_?key|auth_?key"
    r"|(?:^|_)(?:key|pat|dsn|pwd|auth)$",
    re.IGNORECASE,
)


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of all variables that are named like secrets."""
    return tuple(
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and len(value) >= CHARS_MIN and not _setting(value)
    )


def _setting(value: str) -> bool:
    return value.isdecimal() and len(value) < NUMBER_CHARS_MAX


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what must not leave."""
    redactor = Redactor(secrets)
    raw = text.encode("utf-8", "surrogateescape")
    return (redactor.feed(raw) + redactor.end()).decode("utf-8", "surrogateescape")


class Redactor:
    """Cleans a stream; what comes out does not depend on how it was cut into pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = KnownSecrets(all_forms(secrets))
        self._alike = Lookalikes()

    def feed(self, data: bytes) -> bytes:
        """What is safe to pass on; the rest is held until more is known of it."""
        return self._alike.feed(self._known.feed(data))

    def end(self) -> bytes:
        """What was held."""
        return self._alike.feed(self._known.end()) + self._alike.end()


class Lookalikes:
    """Replaces what looks like a credential in a stream, whoever it belongs to."""

    def __init__(self) -> None:
        self._text = b""
        self._at = 0
        """How much of the text is passed on already: one byte is kept, to know what is before."""
        self._within: Shape | None = None
        self._swallowed = 0

    def feed(self, data: bytes) -> bytes:
        """What is safe to pass on."""
        self._text += data
        return self._pass_on(final=False)

    def end(self) -> bytes:
        """What was held."""
        passed = self._pass_on(final=True)
        self._text, self._at, self._within = b"", 0, None
        return passed

    def _pass_on(self, *, final: bool) -> bytes:
        passed: list[bytes] = []
        upcoming = _Upcoming(self._text)
        until = len(self._text) if final else -1
        while self._leave():
            if until < self._at:
                until = min(shape.may_begin(self._text, self._at) for shape in SHAPES)
            found = upcoming.first(self._at, until)
            if found is None:
                passed.append(self._text[self._at : until])
                self._at = until
                break
            shape, match = found
            passed += [self._text[self._at : match.end(1)], MARKER]
            self._at = match.end(2)
            self._within, self._swallowed = shape, 0
        kept = min(self._at, 1)
        self._text, self._at = self._text[self._at - kept :], kept
        return b"".join(passed)

    def _leave(self) -> bool:
        """Pass over the rest of the credential that we are in; False if all that there is is it."""
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

    def _leave_key(self, stop: int, until: Shape) -> None:
        last = self._at + KEY_BYTES_MAX - self._swallowed
        over = min(stop, last)
        end = until.whole.search(self._text, self._at, over)
        if end is not None:
            self._at, self._within = end.end(), None
        elif over == last or over < len(self._text):
            self._at, self._within = over, None
        else:
            held = until.may_begin(self._text, self._at)
            self._swallowed += held - self._at
            self._at = held


class _Upcoming:
    """The next match of each shape, looked for once for each stretch of a text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        present = {words: words.among(text) for words in FIRST_WORDS}
        self._next: dict[Shape, re.Match[bytes] | None] = {
            shape: None for shape in SHAPES if not present[shape.first]
        }

    def first(self, at: int, until: int) -> tuple[Shape, re.Match[bytes]] | None:
        """The first match that begins from `at` on and before `until`."""
        best: tuple[Shape, re.Match[bytes]] | None = None
        for shape in SHAPES:
            match = self._after(shape, at)
            if match and match.start() < until and (not best or match.start() < best[1].start()):
                best = shape, match
        return best

    def _after(self, shape: Shape, at: int) -> re.Match[bytes] | None:
        known = self._next.get(shape)
        if shape not in self._next or (known is not None and known.start() < at):
            known = self._next[shape] = shape.whole.search(self._text, at)
        return known
