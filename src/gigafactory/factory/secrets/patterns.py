"""What credentials look like, whoever they belong to.

A shape has a beginning of bounded length by which it is recognised, and signs that belong to it as
long as they follow. So a stream can be searched with little held back, however it is cut.
"""

import re
from collections.abc import Sequence

import msgspec


class Words(msgspec.Struct, frozen=True):
    """One of some words."""

    words: tuple[bytes, ...]
    any_case: bool = False

    def whole(self) -> bytes:
        """The expression for the part."""
        return self._of(b"|".join(re.escape(word) for word in self.words))

    def begun(self) -> bytes:
        """The expression for a text that ends within the part, after one sign at least."""
        return self._of(b"|".join(_beginning(word) for word in self.words))

    @property
    def bytes_max(self) -> int:
        """How long it can be."""
        return max(map(len, self.words))

    def among(self, text: bytes) -> bool:
        """Whether any of them is somewhere in a text: much quicker than a search for the shape."""
        if self.any_case:
            text = text.lower()
        return any(word in text for word in self.words)

    def _of(self, choice: bytes) -> bytes:
        return (b"(?i:" if self.any_case else b"(?:") + choice + b")"


class Signs(msgspec.Struct, frozen=True):
    """From `least` to `most` signs of a class."""

    among: bytes
    least: int
    most: int

    def whole(self) -> bytes:
        """The expression for the part."""
        return b"%b{%d,%d}" % (self.among, self.least, self.most)

    def begun(self) -> bytes:
        """The expression for a text that ends within the part, if only just before it."""
        return b"%b{0,%d}" % (self.among, self.most)

    @property
    def bytes_max(self) -> int:
        """How long it can be."""
        return self.most


Part = Words | Signs


def _beginning(word: bytes) -> bytes:
    expression = b""
    for sign in reversed([word[at : at + 1] for at in range(len(word))]):
        expression = re.escape(sign) + (b"(?:%b)?" % expression if expression else b"")
    return expression


class Shape:
    """One kind of credential: what is kept before it, how it begins, and how it goes on."""

    def __init__(
        self,
        *begins: Part,
        kept: Sequence[Part] = (),
        then: Sequence[Part] = (),
        follows: bytes = b"",
        not_after: bytes = b"",
        until: "Shape | None" = None,
    ) -> None:
        """`then` stands behind it; `follows` is what it goes on with, to the end of an `until`."""
        parts = (*kept, *begins, *then)
        assert isinstance(parts[0], Words), "a shape is found by its first word"
        self.first = parts[0]
        whole = [part.whole() for part in parts]
        # Behind the first word, so that a search can jump from one such word to the next.
        guard = b"(?<!%b%b)" % (not_after, whole[0]) if not_after else b""
        whole[0] += guard
        value = len(kept) + len(begins)
        self.whole = re.compile(
            b"(%b)(%b)%b"
            % (
                b"".join(whole[: len(kept)]),
                b"".join(whole[len(kept) : value]),
                b"".join(whole[value:]),
            )
        )
        self.begun = re.compile(_begun(parts, guard))
        self.follows = re.compile(b"%b*" % follows) if follows else None
        self.until = until
        self.bytes_max = sum(part.bytes_max for part in parts)

    def may_begin(self, text: bytes, at: int) -> int:
        """Where the text, from `at`, ends in what may become this; its end if it does not."""
        found = self.begun.search(text, max(at, len(text) - self.bytes_max))
        return found.start() if found else len(text)


def _begun(parts: Sequence[Part], guard: bytes) -> bytes:
    first, *rest = parts
    expression = b"(?!)"
    for part in reversed(rest):
        expression = b"(?:%b\\Z|%b%b)" % (part.begun(), part.whole(), expression)
    return b"(?:%b\\Z|%b%b%b)" % (first.begun(), first.whole(), guard, expression)


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

NAMES = Words(
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
    Signs(rb"\\", 0, 1),
    Signs(rb"[\x22']", 0, 1),
    Signs(BLANK, 0, 3),
    Signs(rb"[=:]", 1, 2),
    Signs(BLANK, 0, 3),
)


def _quoted(quote: bytes) -> Shape:
    inside = rb"[^%b\\\r\n]" % quote
    return Shape(
        Signs(rb"[^%b\\\r\n$\[{<]" % quote, 1, 1),
        Signs(inside, 5, 5),
        kept=(*ASSIGNED, Signs(rb"\\", 0, 1), Signs(quote, 1, 1)),
        follows=inside,
    )


def _token(*words: bytes, signs: bytes, least: int, follows: bytes = b"") -> Shape:
    return Shape(
        Words(words), Signs(signs, least, least), follows=follows or signs, not_after=ALNUM
    )


END_OF_KEY = Shape(Words((b"-----END ",)), Signs(rb"[A-Z0-9 ]", 0, 40), Words((b"-----",)))
SHAPES = (
    _token(b"sk-", signs=WORD, least=16),
    _token(b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_", signs=ALNUM, least=16),
    _token(b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", signs=ALNUM, least=20),
    _token(b"github_pat_", signs=rb"[A-Za-z0-9_]", least=20),
    _token(b"glpat-", signs=WORD, least=20),
    _token(b"npm_", signs=ALNUM, least=30),
    _token(b"gfo_", b"gff_", b"gfl_", b"gfe_", b"gfj_", signs=WORD, least=30),
    _token(b"AKIA", b"ASIA", signs=UPPER, least=16),
    _token(b"xoxa-", b"xoxb-", b"xoxp-", b"xoxr-", b"xoxs-", signs=rb"[A-Za-z0-9-]", least=10),
    _token(b"AIza", signs=WORD, least=30),
    _token(b"eyJ", signs=WORD, least=10, follows=OPAQUE),
    Shape(
        Words((b"-----BEGIN ",)),
        Signs(rb"[A-Z0-9 ]", 0, 30),
        Words((b"PRIVATE KEY",)),
        Signs(rb"[A-Z ]", 0, 10),
        Words((b"-----",)),
        follows=KEY,
        until=END_OF_KEY,
    ),
    Shape(
        Signs(OPAQUE, 16, 16),
        kept=(Words((b"bearer", b"basic"), any_case=True), Signs(BLANK, 1, 4)),
        follows=OPAQUE,
    ),
    Shape(
        Signs(USER, 0, 128),
        Words((b":",)),
        Signs(PASSWORD, 1, 1024),
        kept=(Words((b"://",)),),
        then=(Words((b"@",)),),
    ),
    Shape(Signs(USER, 20, 512), kept=(Words((b"://",)),), then=(Words((b"@",)),)),
    Shape(Signs(BARE_FIRST, 1, 1), Signs(BARE, 5, 5), kept=ASSIGNED, follows=BARE),
    _quoted(rb"\x22"),
    _quoted(rb"'"),
)
