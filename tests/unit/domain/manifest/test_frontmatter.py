"""Front matter of files that may be broken or hostile; the body stays unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.frontmatter import NODES_MAX, parse_document, parse_yaml
from gigafactory.domain.manifest.job_file import parse_job_file


def faults_of(text: bytes | str) -> tuple[Fault, ...]:
    with pytest.raises(Invalid) as refused:
        parse_job_file(text)
    return refused.value.faults


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("---\n---\n\r\n  x \n", "\r\n  x \n"),
        ("---\r\nlock: a\r\n---\r\nx\r\ny", "x\r\ny"),
        ("\ufeff---  \nlock: a\n---\t\nx", "x"),
        ("\ufeffx", "\ufeffx"),
        ("---\n# only a comment\n---", ""),
        ("---\n~\n---\nx", "x"),
        ("---\nlock: a\n---\nx\n---\ny", "x\n---\ny"),
    ],
)
def test_job_file_body_is_kept_byte_for_byte(text: str, body: str) -> None:
    assert parse_job_file(text.encode()).body == body


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_any_body_text_is_kept_unchanged(body: str) -> None:
    assert parse_job_file(f"---\npriority: low\n---\n{body}".encode()).body == body


def test_faults_beyond_the_limit_are_counted_and_not_listed() -> None:
    faults = faults_of("---\n" + "".join(f"k{i}: 1\n" for i in range(150)) + "---\n")
    assert len(faults) == 101
    assert faults[-1].message == "and 50 faults more"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("---\nlock: a\n", 1, "never closed"),
        (b"---\nlock: \xff\n---\n", 2, "the byte 0xff; expected a file in UTF-8"),
        (b"a\nb\x00", 2, "a NUL byte"),
        ("a\ud800", None, "lone surrogate"),
        ("---\n" + "#" * 65_537 + "\n---\n", 1, "has 65538 bytes"),
        ("---\n[a]\n---\n", 2, "found no keys"),
        ("---\nhello\n---\n", 2, "found no keys"),
        ("---\na: 1\n--- {c: 1}\n---\n", 3, "a second YAML document"),
        ("---\nlock: !!str a\n---\n", 2, "found the tag"),
        ("---\nlock: !x [a]\n---\n", 2, "found the tag '!x'"),
        ("---\nx-a: &a {b: 1}\n---\n", 2, "found the anchor &a"),
        ("---\n? [a]\n: 1\n---\n", 2, "a list or mapping as a key"),
        ("---\nverify: a: b\n---\n", 2, "needs quotes"),
        ("---\nx-a:\n\tb: 1\n---\n", 3, "not with tabs"),
        ("---\ndeps: [@a]\n---\n", 2, "begins with @ needs quotes"),
        ("---\nlock: [a\n---\n", 3, "not readable as YAML"),
        ("---\nx-a: 1\nlock: \x01\n---\n", 3, "control characters are not allowed"),
        ("---\n" + "[" * 30_000 + "\n---\n", 2, "nested deeper than 32"),
        ("---\n" + "- " * 30_000 + "\n---\n", 2, "nested deeper than 32"),
        ("---\nx-a: " + "{a: " * 15_000 + "\n---\n", 2, "nested deeper than 32"),
    ],
)
def test_hostile_or_broken_file_is_rejected_with_a_clear_fault(
    text: bytes | str, line: int | None, why: str
) -> None:
    assert any(why in fault.message and fault.line == line for fault in faults_of(text))


def test_number_of_extension_keys_is_limited() -> None:
    many = "".join(f"x-{i}: 1\n" for i in range(101))
    (fault,) = faults_of(f"---\n{many}---\n")
    assert "found 101 keys that start with x-" in fault.message


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_parse_or_are_rejected_as_invalid(data: bytes) -> None:
    for text in (data, b"---\n" + data + b"\n---\nx"):
        try:
            parse_job_file(text)
        except Invalid as refused:
            assert refused.faults  # noqa: PT017 - either way of ending is right


yamlish = st.lists(
    st.sampled_from(
        [
            "name",
            "deps",
            ": ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            "\n",
            "  ",
            "&a",
            "*a",
            "!t ",
            "|\n",
            "'",
            '"',
            "x-a",
            ",",
            "? ",
            "budget",
            "usd",
            "1",
            "~",
            "#",
            "children",
            "body",
            "%",
            "@",
        ]
    ),
    max_size=25,
).map("".join)


@settings(deadline=None)
@given(yamlish)
def test_arbitrary_yaml_parses_or_is_rejected_as_invalid(text: str) -> None:
    try:
        parse_job_file(f"---\n{text}\n---\nx")
    except Invalid as refused:
        assert refused.faults  # noqa: PT017 - either way of ending is right


@pytest.mark.parametrize("sign", ["\r", "\x85", "\u2028", "\u2029"])
def test_broken_yaml_with_other_line_ends_is_a_fault(sign: str) -> None:
    document = parse_document(f'---\nx: "{sign * 3}" y: [\n---\nbody')
    assert "not readable as YAML" in document.faults[0].message


def test_a_file_of_too_many_values_is_refused() -> None:
    node, faults = parse_yaml(b"[" + b"a," * (NODES_MAX + 1) + b"a]")
    assert node is None
    assert "more than" in faults[0].message
