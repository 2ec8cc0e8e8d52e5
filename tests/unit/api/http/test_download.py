"""HTTP Range requests: a single byte range, and headers that are ignored or rejected."""

import pytest

from gigafactory.api.http.download import parse_range
from gigafactory.domain.errors import RangeNotSatisfiable


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"bytes=0-3", (0, 4)),
        (b"bytes=4-", (4, 14)),
        (b"bytes=-6", (8, 14)),
        (b"bytes=-600", (0, 14)),
        (b"bytes=13-13", (13, 14)),
        (b"bytes=10-999", (10, 14)),
        (b"BYTES=0-0", (0, 1)),
        (b"bytes= 0-3 ", (0, 4)),
    ],
)
def test_single_range_selects_its_bytes(header: bytes, part: tuple[int, int]) -> None:
    assert parse_range(header, 14) == part


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"bytes=",
        b"bytes=-",
        b"bytes=4-2",
        b"bytes=a-b",
        b"lines=0-3",
        b"bytes=0-1,4-5",
        b"bytes=" + b"9" * 5000 + b"-",
    ],
)
def test_header_that_is_not_a_single_byte_range_is_ignored(header: bytes | None) -> None:
    assert parse_range(header, 14) is None


@pytest.mark.parametrize("header", [b"bytes=14-", b"bytes=20-30", b"bytes=-0"])
def test_range_beyond_the_end_is_rejected_with_the_size(header: bytes) -> None:
    with pytest.raises(RangeNotSatisfiable, match="has 14 bytes") as refused:
        parse_range(header, 14)
    assert refused.value.size == 14


def test_range_of_an_empty_file_is_rejected() -> None:
    with pytest.raises(RangeNotSatisfiable, match="has 0 bytes"):
        parse_range(b"bytes=0-", 0)
