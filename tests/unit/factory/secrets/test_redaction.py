"""Redaction: no secret leaves the machine, however the stream is split."""

import base64
import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.factory.secrets.redaction import Redactor, redact, secret_values

MARKER = "[redacted]"
LETTERS = "abcABC012-_+/=%&. \n\"'\\:é"

secrets = st.lists(
    st.text(LETTERS, min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6),
    min_size=1,
    max_size=4,
)
shapes = st.sampled_from(
    [
        "sk-abcdefghijklmnop0123",
        "ghp_0123456789abcdefghijABCD",
        "AKIA0123456789ABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "Bearer abcdefghijklmnop",
        "https://me:word@host/",
        "://",
        "@",
        'MY_TOKEN="a b c d e f"',
        "PASSWORD == abcdef",
        "TOKEN",
        "=",
        '"',
        "\n",
        " ",
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], bytes]:
    known = draw(secrets)
    written = [
        *known,
        *(quote(each, safe="") for each in known),
        *(base64.b64encode(each.encode()).decode() for each in known),
        *(each[: len(each) // 2] for each in known),
    ]
    part = st.one_of(st.sampled_from(written), shapes, st.text(LETTERS, max_size=12))
    return known, "".join(draw(st.lists(part, max_size=14))).encode()


def in_pieces(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [redactor.feed(data[start:end]) for start, end in pairwise(borders)]
    return b"".join(pieces) + redactor.finish()


@given(streams(), st.lists(st.integers(0, 400), max_size=12))
def test_cuts_in_a_stream_do_not_change_the_redaction(
    stream: tuple[list[str], bytes], cuts: list[int]
) -> None:
    known, data = stream
    assert in_pieces(Redactor(known), data, cuts) == in_pieces(Redactor(known), data, [])


@given(streams())
def test_single_byte_stream_is_redacted_the_same(stream: tuple[list[str], bytes]) -> None:
    known, data = stream
    every = list(range(len(data)))
    assert in_pieces(Redactor(known), data, every) == in_pieces(Redactor(known), data, [])


@given(streams(), st.lists(st.integers(0, 400), max_size=12))
def test_no_secret_or_its_encoding_passes(stream: tuple[list[str], bytes], cuts: list[int]) -> None:
    known, data = stream
    passed = in_pieces(Redactor(known), data, cuts)
    for secret in known:
        assert secret.encode() not in passed
        assert base64.b64encode(secret.encode()).rstrip(b"=") not in passed
        assert quote(secret, safe="").encode() not in passed


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_arbitrary_bytes_are_redacted_independently_of_cuts(data: bytes, cuts: list[int]) -> None:
    assert in_pieces(Redactor(["\x00\x00\x00\x00\x00\x00"]), data, cuts) == in_pieces(
        Redactor(["\x00\x00\x00\x00\x00\x00"]), data, []
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key sk-fake-0123456789abcdef end", "key [redacted] end"),
        ("token ghp_0123456789abcdefghijABCDEFGHIJ012345", "token [redacted]"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnop", "[redacted]"),
        ("glpat-0123456789abcdefghij.", "[redacted]."),
        ("id AKIA0123456789ABCDEF,", "id [redacted],"),
        ("xoxb-1234567890-abc", "[redacted]"),
        ("gff_0123456789-abcdefghij_ABCDEFGHIJ0123", "[redacted]"),
        ("AIzaSyA0123456789012345678901234567890", "[redacted]"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln;", "jwt [redacted];"),
        ("Authorization: Bearer abcdef0123456789xyz", "Authorization: Bearer [redacted]"),
        ("authorization: basic dXNlcjpwYXNzd29yZDEy", "authorization: basic [redacted]"),
        ("git clone https://me:pa55@host/x.git", "git clone https://[redacted]@host/x.git"),
        ("https://0123456789abcdef0123@host/", "https://[redacted]@host/"),
        ("export NPM_TOKEN=abcdef123", "export NPM_TOKEN=[redacted]"),
        ("DB_PASSWORD: hunter2$5 next", "DB_PASSWORD: [redacted] next"),
        ('X_SECRET = "two words here" # why', 'X_SECRET = "[redacted]" # why'),
        ("X_API_KEY='two words here'", "X_API_KEY='[redacted]'"),
        ('{"access_token":"abc.def.ghi","n":1}', '{"access_token":"[redacted]","n":1}'),
        (r"{\"api_key\": \"abcdefgh\"}", r"{\"api_key\": \"[redacted]\"}"),
    ],
)
def test_credential_patterns_are_redacted(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-sixteen-people and risk-management-of-today",
        '{"input_tokens": 1200, "max_tokens": 200000}',
        "ssh://git@github.com/a/b and https://host:8080/path@2x.png",
        "the bearer of good news, Basic authentication",
        "export TOKEN=$OTHER_TOKEN; PASSWORD=[redacted]",
        "https://[redacted]@host/",
        "AKIA is a prefix, eyJ is another",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "src/app.py:12:5: E501 line too long (101 > 100)",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_private_key_is_redacted_to_its_end_and_no_further() -> None:
    key = (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\naC1rZXk=\n-----END OPENSSH PRIVATE KEY-----"
    )
    assert redact(f"before\n{key}\nafter") == f"before\n{MARKER}\nafter"
    assert redact(json.dumps({"k": key, "n": 1})) == f'{{"k": "{MARKER}", "n": 1}}'


def test_private_key_without_an_end_does_not_swallow_the_log() -> None:
    assert redact("found '-----BEGIN PRIVATE KEY-----' in x.py\n") == f"found '{MARKER}' in x.py\n"
    long = redact("-----BEGIN PRIVATE KEY-----" + "A" * 100_000)
    assert long == MARKER + "A" * (100_000 - 16 * 1024)


def test_complete_line_is_passed_on_at_once() -> None:
    redactor = Redactor(["very-secret"])
    assert redactor.feed(b"hello\n") == b"hello\n"
    assert redactor.feed(b"this is very") == b"this is "
    assert redactor.feed(b"-good\n") == b"very-good\n"


def test_split_secret_is_redacted() -> None:
    redactor = Redactor(["very-secret"])
    assert redactor.feed(b"this is very-") + redactor.feed(b"secret!\n") == b"this is [redacted]!\n"


def test_adjacent_or_overlapping_secrets_are_redacted_once() -> None:
    assert redact("abcdefghij", ["abcdef", "efghij"]) == MARKER
    assert redact("abcdefghijkl", ["abcdef", "ghijkl"]) == MARKER
    assert redact("abcdef ghijkl", ["abcdef", "ghijkl"]) == f"{MARKER} {MARKER}"


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("altchars", [b"+/", b"-_"])
def test_secret_inside_base64_is_redacted_at_any_offset(before: str, altchars: bytes) -> None:
    secret = "p\xfb\xff>ssw?rd~"
    hidden = base64.b64encode(f"{before}{secret} and more".encode(), altchars).decode()
    left = redact(hidden, [secret])
    assert MARKER in left
    core = base64.b64encode(secret.encode(), altchars).decode()[4:-4]
    assert core not in left


def test_long_secret_is_redacted_whole_and_line_by_line() -> None:
    lines = [f"{n:02d}-" + "abcdefghijklmnopqrstuvwxyz" * 12 for n in range(8)]
    secret = "\n".join(lines)
    assert redact(f"<{secret}>", [secret]) == f"<{MARKER}>"
    assert redact(json.dumps(secret), [secret]) == f'"{MARKER}"'
    assert redact(f"<{lines[3]}>", [secret]) == f"<{MARKER}>"


def test_short_value_is_not_redacted() -> None:
    assert redact("hello there", ["hello"]) == "hello there"


@pytest.mark.parametrize(
    "text", [b"://user:" + b"p" * 500, b"very-secre", b"-----BEGIN ", b"TOKEN = "]
)
def test_amount_of_held_back_input_is_bounded(text: bytes) -> None:
    redactor, held = Redactor(["very-secret", "s" * 5_000]), 0
    for _ in range(100):
        held += len(text) - len(redactor.feed(text))
        assert 0 <= held < 2_000
    assert len(redactor.finish()) == held


def test_values_of_secretly_named_variables_are_secrets() -> None:
    environ = {
        "GITHUB_TOKEN": "tttttt",
        "AWS_SECRET_ACCESS_KEY": "kkkkkkkk",
        "db_password": "pppppp",
        "OPENAI_API_KEY": "short",
        "MAX_TOKENS": "200000",
        "PATH": "/usr/bin",
        "SIGNING_KEY": "ssssss",
        "KEYBOARD": "qwertz-de",
    }
    assert set(secret_values(environ)) == {"tttttt", "kkkkkkkk", "pppppp", "ssssss"}


def test_the_folder_of_a_shell_is_not_a_password() -> None:
    environ = {"PWD": "/home/me/projects", "OLDPWD": "/home/me", "DB_PWD": "dddddddd"}
    assert secret_values(environ) == ("dddddddd",)
