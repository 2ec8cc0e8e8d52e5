"""Webhook deliveries: signatures, and detection of repeated deliveries."""

from datetime import timedelta

import pytest

from gigafactory.domain.tracker.webhook_delivery import (
    has_valid_signature,
    new_deliveries,
    signature,
)
from tests.support.builders import NOON


def test_signature_matches_the_github_example() -> None:
    # The example from GitHub's documentation.
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature(b"It's a Secret to Everybody", b"Hello, World!") == expected
    assert has_valid_signature(b"It's a Secret to Everybody", b"Hello, World!", expected)


@pytest.mark.parametrize("shown", ["", "sha256=", "sha1=00", "sha256=zz", "sha256=\u00e9"])
def test_malformed_signature_is_invalid(shown: str) -> None:
    assert not has_valid_signature(b"secret", b"{}", shown)


def test_signature_without_a_secret_is_invalid() -> None:
    assert not has_valid_signature(None, b"{}", signature(b"", b"{}"))
    assert not has_valid_signature(b"", b"{}", signature(b"", b"{}"))


def test_delivery_is_keyed_by_its_id_and_signature() -> None:
    records = new_deliveries("notes", "72d3162e-cc78", "sha256=ab", now=NOON)
    assert [record.key for record in records] == ["notes/72d3162e-cc78", "notes/sha256=ab"]
    assert all(record.expires_at > NOON for record in records)


def test_what_a_delivery_says_is_never_forgotten() -> None:
    [by_id, by_signature] = new_deliveries("notes", "72d3162e-cc78", "sha256=ab", now=NOON)
    assert by_id.expires_at < NOON + timedelta(days=31)
    assert by_signature.expires_at > NOON + timedelta(days=365_000)


def test_an_id_that_is_a_signature_is_kept_like_one() -> None:
    [record] = new_deliveries("notes", "sha256:ab", "sha256:ab", now=NOON)
    assert record.expires_at > NOON + timedelta(days=365_000)


@pytest.mark.parametrize("strange", [None, "", "a b", "x" * 101, "../x\n"])
def test_malformed_delivery_id_is_not_used_as_a_key(strange: str | None) -> None:
    assert [record.id for record in new_deliveries("*", strange, "sha256=ab", now=NOON)] == [
        "sha256=ab"
    ]
