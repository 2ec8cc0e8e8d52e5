"""Every parser accepts any bytes: it returns a result or raises a documented error."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.parsers import PARSERS, PUMPS, REFUSALS, SEEDS

EXAMPLES = 600
"""Of each parser: about a minute for all."""

WORDS = (
    *SEEDS,
    *PUMPS,
    *(
        word.encode()
        for word in [
            "name",
            "title",
            "body",
            "deps",
            "children",
            "engine",
            "retry",
            "null",
            "~",
            "true",
        ]
    ),
    *(
        word.encode()
        for word in [
            "manifest",
            "jobs",
            "usage",
            "tokens",
            "type",
            "text",
            "result",
            "event",
            "part",
        ]
    ),
    *(
        word.encode()
        for word in ["1e400", "-1", "NaN", "0x1f", "99999999999999999999", "3.11", "\ufeff"]
    ),
    b"\xed\xa0\x80",
    b"\x00",
    b"---\n",
    b": ",
    b"- ",
    b'"}',
    b"}]}",
)
"""Fragments of the parsed formats, valid and broken."""

pieces = st.sampled_from(WORDS) | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
hostile = st.lists(pieces, max_size=30).map(b"".join)
"""Fragments in any order reach more of a parser than random bytes do."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", PARSERS)
def test_a_parser_returns_or_refuses(place: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(hostile)
    def parse(data: bytes) -> None:
        with contextlib.suppress(*REFUSALS):
            PARSERS[place](data)

    parse()


KEPT = [
    ("domain.manifest.frontmatter:parse_document", b'---\nx: "\r\r\r" y: [\n---\nb'),
    ("domain.manifest.profile:parse_profile_json", b'{"name": null}'),
    ("domain.job.diff:read_diff", b'{"base": "\xff"}'),
    ("web.presenters.diff:parse_diff", b"diff --git a/x b/x\n@@ -" + b"9" * 5000 + b" +1 @@\n"),
    ("folder.queue.record:decode", b'{"a":' * 2000),
    ("engines.codex:reset_time", b"try again at Jan 1st, 0001 1:00 AM"),
]
"""Inputs that once raised an undocumented error."""


@pytest.mark.parametrize(("place", "data"), KEPT)
def test_what_once_failed_stays_fixed(place: str, data: bytes) -> None:
    with contextlib.suppress(*REFUSALS):
        PARSERS[place](data)
