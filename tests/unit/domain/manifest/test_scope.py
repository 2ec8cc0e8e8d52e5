"""Scopes: which paths a job may change."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.manifest.scope import matches_any, paths_outside


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("src/**", "src/a/b.py"),
        ("src/", "src/a/b.py"),
        ("src", "src/a.py"),
        ("./src/*.py", "src/a.py"),
        ("/docs/**/*.md", "docs/a.md"),
        ("docs/**/*.md", "docs/deep/er/a.md"),
        ("*.lock", "web/pnpm.lock"),
        ("uv.lock", "uv.lock"),
        ("**", "anything/at/all"),
        ("a?.txt", "ab.txt"),
        ("**/test_*.py", "tests/unit/test_a.py"),
        ("name with (odd) [signs].txt", "name with (odd) [signs].txt"),
    ],
)
def test_glob_matches_paths_in_its_scope(glob: str, path: str) -> None:
    assert matches_any(path, [glob])


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("src/**", "srcs/a.py"),
        ("src/*.py", "src/deep/a.py"),
        ("src/*.py", "web/src/a.py"),
        ("*.lock", "lock.txt"),
        ("a?.txt", "a/.txt"),
        ("docs/*.md", "docs/a.mdx"),
    ],
)
def test_glob_does_not_match_paths_out_of_its_scope(glob: str, path: str) -> None:
    assert not matches_any(path, [glob])


def test_paths_outside_the_scope_keep_their_order() -> None:
    assert paths_outside(["z.py", "src/a.py", "a.md"], ["src/**"]) == ("z.py", "a.md")
    assert paths_outside(["z.py"], []) == ("z.py",)


@given(st.text(min_size=1).filter(lambda text: "\n" not in text))
def test_any_text_is_a_valid_glob_and_double_star_matches_everything(text: str) -> None:
    matches_any("a/b", [text])
    assert matches_any(text, ["**"])


def by_regular_expression(path: str, glob: str) -> bool:
    """Match a glob by a regular expression: easy to verify, but slow for hostile globs."""
    plain = glob.strip().removeprefix("./").removeprefix("/").rstrip("/")
    anchored = "/" in glob.strip().removeprefix("./").rstrip("/")
    start = "" if anchored or plain == "**" else r"(?:.*/)?"
    wild = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", plain)
    written = start + "".join(wild.get(part, re.escape(part)) for part in parts) + r"(?:/.*)?"
    return re.fullmatch(written, path, re.DOTALL) is not None


pieces = st.lists(st.sampled_from(["a", "b", ".", "/", "*", "**", "**/", "?"]), max_size=7)
paths = st.text(st.sampled_from("ab./\n"), max_size=9)


@settings(max_examples=1000)
@given(pieces.map("".join), paths)
def test_a_glob_means_what_its_regular_expression_means(glob: str, path: str) -> None:
    assert matches_any(path, [glob]) is by_regular_expression(path, glob)


def test_many_wildcards_take_no_longer_than_the_path_is_long() -> None:
    assert not matches_any("/".join(["folder"] * 500), ["**/" * 90 + "*?" * 10 + "x"])
