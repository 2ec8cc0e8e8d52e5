"""Patterns of credentials, regardless of their owner.

A pattern has a start of bounded length that identifies it, followed by any number of characters of
a class. So a stream can be searched with little held back, wherever it is cut.
"""

import re
from collections.abc import Sequence

import msgspec


class Keywords(msgspec.Struct, frozen=True):
    """One of several literal keywords."""

    words: tuple[bytes, ...]
    any_case: bool = False

    def pattern(self) -> bytes:
        """Return the regular expression of this part."""
        return self._of(b"|".join(re.escape(word) for word in self.words))

    def partial_pattern(self) -> bytes:
        """Return the expression of a text that ends within this part, at least one character in."""
        return self._of(b"|".join(_beginning(word) for word in self.words))

    @property
    def bytes_max(self) -> int:
        """Return the maximum length."""
        return max(map(len, self.words))

    def occurs_in(self, text: bytes) -> bool:
        """Return whether a text contains any keyword: much faster than a search for the pattern."""
        if self.any_case:
            text = text.lower()
        return any(word in text for word in self.words)

    def _of(self, choice: bytes) -> bytes:
        return (b"(?i:" if self.any_case else b"(?:") + choice + b")"


class CharClass(msgspec.Struct, frozen=True):
    """Between `least` and `most` characters of a class."""

    chars: bytes
    least: int
    most: int

    def pattern(self) -> bytes:
        """Return the regular expression of this part."""
        return b"%b{%d,%d}" % (self.chars, self.least, self.most)

    def partial_pattern(self) -> bytes:
        """Return the expression of a text that ends within this part, or right before it."""
        return b"%b{0,%d}" % (self.chars, self.most)

    @property
    def bytes_max(self) -> int:
        """Return the maximum length."""
        return self.most


Part = Keywords | CharClass


def _beginning(word: bytes) -> bytes:
    expression = b""
    for sign in reversed([word[at : at + 1] for at in range(len(word))]):
        expression = re.escape(sign) + (b"(?:%b)?" % expression if expression else b"")
    return expression


class CredentialPattern:
    """One kind of credential: the prefix that is kept, how it starts and how it continues."""

    def __init__(
        self,
        *start: Part,
        prefix: Sequence[Part] = (),
        suffix: Sequence[Part] = (),
        follows: bytes = b"",
        not_after: bytes = b"",
        until: "CredentialPattern | None" = None,
    ) -> None:
        """Compile the pattern; `suffix` must come after it, and `follows` may, up to `until`."""
        parts = (*prefix, *start, *suffix)
        assert isinstance(parts[0], Keywords), "a pattern starts with a keyword"
        self.first_keyword = parts[0]
        whole = [part.pattern() for part in parts]
        # The guard follows the first keyword, so that a search can jump from keyword to keyword.
        guard = b"(?<!%b%b)" % (not_after, whole[0]) if not_after else b""
        whole[0] += guard
        value = len(prefix) + len(start)
        self.regex = re.compile(
            b"(%b)(%b)%b"
            % (
                b"".join(whole[: len(prefix)]),
                b"".join(whole[len(prefix) : value]),
                b"".join(whole[value:]),
            )
        )
        self.partial_regex = re.compile(_partial_pattern(parts, guard))
        self.follows = re.compile(b"%b*" % follows) if follows else None
        self.until = until
        self.bytes_max = sum(part.bytes_max for part in parts)

    def partial_start(self, text: bytes, at: int) -> int:
        """Return where the text ends in a possible start of this pattern, else its length."""
        match = self.partial_regex.search(text, max(at, len(text) - self.bytes_max))
        return match.start() if match else len(text)


def _partial_pattern(parts: Sequence[Part], guard: bytes) -> bytes:
    first, *rest = parts
    expression = b"(?!)"
    for part in reversed(rest):
        expression = b"(?:%b\\Z|%b%b)" % (part.partial_pattern(), part.pattern(), expression)
    return b"(?:%b\\Z|%b%b%b)" % (first.partial_pattern(), first.pattern(), guard, expression)


ALNUM = rb"[A-Za-z0-9]"
WORD = rb"[A-Za-z0-9_-]"
UPPER = rb"[A-Z0-9]"
BLANK = rb"[ \t]"
OPAQUE = rb"[A-Za-z0-9._~+/=-]"
KEY = rb"[A-Za-z0-9+/=\s:,.()\\-]"
USER = rb"[^\s/:@\x22'<>\\`?#\[\]]"
PASSWORD = rb"[^\s/@\x22'<>\\`\[\]]"
BARE = rb"[^\s\x22'`,;&\\()\[\]{}<>]"
BARE_FIRST = rb"[^\s\x22'`,;&\\()\[\]{}<>$*=:]"

NAMES = Keywords(
    tuple(
        rb"""
        TOKEN SECRET PASSWORD PASSWD PASSPHRASE API_KEY APIKEY ACCESS_KEY SECRET_KEY PRIVATE_KEY
        AUTH_KEY CREDENTIAL CREDENTIALS
        access_token refresh_token id_token auth_token client_secret api_key apiKey apikey
        secret_key private_key password passwd passphrase
        """.split()
    )
)
ASSIGNED = (
    NAMES,
    CharClass(rb"\\", 0, 1),
    CharClass(rb"[\x22']", 0, 1),
    CharClass(BLANK, 0, 3),
    CharClass(rb"[=:]", 1, 2),
    CharClass(BLANK, 0, 3),
)


def _quoted(quote: bytes) -> CredentialPattern:
    inside = rb"[^%b\\\r\n]" % quote
    return CredentialPattern(
        CharClass(rb"[^%b\\\r\n$\[{<]" % quote, 1, 1),
        CharClass(inside, 5, 5),
        prefix=(*ASSIGNED, CharClass(rb"\\", 0, 1), CharClass(quote, 1, 1)),
        follows=inside,
    )


def _token(*words: bytes, chars: bytes, least: int, follows: bytes = b"") -> CredentialPattern:
    return CredentialPattern(
        Keywords(words), CharClass(chars, least, least), follows=follows or chars, not_after=ALNUM
    )


END_OF_KEY = CredentialPattern(
    Keywords((b"-----END ",)), CharClass(rb"[A-Z0-9 ]", 0, 40), Keywords((b"-----",))
)
PATTERNS = (
    _token(b"sk-", chars=WORD, least=16),
    _token(b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_", chars=ALNUM, least=16),
    _token(b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", chars=ALNUM, least=20),
    _token(b"github_pat_", chars=rb"[A-Za-z0-9_]", least=20),
    _token(b"glpat-", chars=WORD, least=20),
    _token(b"npm_", chars=ALNUM, least=30),
    _token(b"gfo_", b"gff_", b"gfl_", b"gfe_", b"gfj_", chars=WORD, least=30),
    _token(b"AKIA", b"ASIA", chars=UPPER, least=16),
    _token(b"xoxa-", b"xoxb-", b"xoxp-", b"xoxr-", b"xoxs-", chars=rb"[A-Za-z0-9-]", least=10),
    _token(b"AIza", chars=WORD, least=30),
    _token(b"eyJ", chars=WORD, least=10, follows=OPAQUE),
    CredentialPattern(
        Keywords((b"-----BEGIN ",)),
        CharClass(rb"[A-Z0-9 ]", 0, 30),
        Keywords((b"PRIVATE KEY",)),
        CharClass(rb"[A-Z ]", 0, 10),
        Keywords((b"-----",)),
        follows=KEY,
        until=END_OF_KEY,
    ),
    CredentialPattern(
        CharClass(OPAQUE, 16, 16),
        prefix=(Keywords((b"bearer", b"basic"), any_case=True), CharClass(BLANK, 1, 4)),
        follows=OPAQUE,
    ),
    CredentialPattern(
        CharClass(USER, 0, 128),
        Keywords((b":",)),
        CharClass(PASSWORD, 1, 1024),
        prefix=(Keywords((b"://",)),),
        suffix=(Keywords((b"@",)),),
    ),
    CredentialPattern(
        CharClass(USER, 20, 512), prefix=(Keywords((b"://",)),), suffix=(Keywords((b"@",)),)
    ),
    CredentialPattern(
        CharClass(BARE_FIRST, 1, 1), CharClass(BARE, 5, 5), prefix=ASSIGNED, follows=BARE
    ),
    _quoted(rb"\x22"),
    _quoted(rb"'"),
)
