"""Scopes: which paths a job may change."""

import pytest
from hypothesis import given
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
def test_a_path_that_is_meant(glob: str, path: str) -> None:
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
def test_a_path_that_is_not_meant(glob: str, path: str) -> None:
    assert not matches_any(path, [glob])


def test_what_is_outside_keeps_its_order() -> None:
    assert paths_outside(["z.py", "src/a.py", "a.md"], ["src/**"]) == ("z.py", "a.md")
    assert paths_outside(["z.py"], []) == ("z.py",)


@given(st.text(min_size=1).filter(lambda text: "\n" not in text))
def test_any_text_is_a_glob_and_everything_is_below_everything(text: str) -> None:
    matches_any("a/b", [text])
    assert matches_any(text, ["**"])
