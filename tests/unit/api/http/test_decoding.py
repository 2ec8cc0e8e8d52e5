"""Documents with too many values are refused before they are decoded."""

import json
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.api.http import decoding
from gigafactory.api.http.decoding import decode_document
from gigafactory.domain.errors import Invalid

leaves = st.none() | st.integers(0, 9) | st.text(st.sampled_from('a"\\\\[{,é'), max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(leaves.map(str), inner, max_size=3),
    max_leaves=20,
)


def weight(value: object) -> int:
    """Count what the decoder has to make: three for a list or object, one for a further member."""
    if not isinstance(value, dict | list):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 3 + max(len(value) - 1, 0) + sum(map(weight, members))


@given(values, st.integers(1, 50))
def test_values_are_counted_outside_of_texts(value: object, scanned: int) -> None:
    document = {"jobs": value, "more": [value]}
    data = json.dumps(document, separators=(",", ":")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "SCANNED_BYTES", scanned)
        patch.setattr(decoding, "VALUES_MAX", weight(document))
        assert decode_document(data) == document
        patch.setattr(decoding, "VALUES_MAX", weight(document) - 1)
        if len(data) >= weight(document):
            with pytest.raises(Invalid, match="more than"):
                decode_document(data)


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"1,", b'"",', b'"[{,",'])
def test_many_values_are_refused_quickly(piece: bytes) -> None:
    data = b'{"jobs":[' + piece * (8_000_000 // len(piece)) + b"1]}"
    before = thread_time()
    with pytest.raises(Invalid, match="more than 500000 values"):
        decode_document(data)
    assert thread_time() - before < 0.25


def test_a_nul_is_found_quickly_behind_any_number_of_backslashes() -> None:
    for pairs in (0, 1, 4_000_000):
        text = b"\\\\" * pairs
        before = thread_time()
        assert decode_document(b'{"a":"' + text + b'u0000"}')["a"].endswith("u0000")
        with pytest.raises(Invalid, match="NUL"):
            decode_document(b'{"a":"' + text + b'\\u0000"}')
        assert thread_time() - before < 0.25


def test_texts_may_contain_anything() -> None:
    document = {"jobs": [{"body": '[{,"\\' * 300_000}]}
    assert decode_document(json.dumps(document).encode()) == document
