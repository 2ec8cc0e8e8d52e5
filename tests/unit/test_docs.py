"""The documentation names only existing files, and its links resolve."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "gigafactory"

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *SOURCES.glob("*/README.md"),
        *(ROOT / ".github").rglob("*.md"),
    ]
)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#\s]+)(?:#(?P<anchor>[^)\s]+))?\)")
MODULE = re.compile(r"`(?P<path>[\w/]+/[\w/]*\w+\.py)`")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    texts = (match["text"].lower() for match in HEADING.finditer(prose(page)))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}


def broken_links(page: Path) -> Iterator[str]:
    for match in LINK.finditer(prose(page)):
        target = (page.parent / match["target"]).resolve()
        if not target.exists():
            yield match["target"]
        elif match["anchor"] and target.suffix == ".md" and match["anchor"] not in anchors(target):
            yield f"{match['target']}#{match['anchor']}"


def missing_modules(page: Path) -> Iterator[str]:
    """Yield the paths of modules that exist neither in the repository nor in the package."""
    bases = (ROOT, SOURCES, page.parent, SOURCES / "coordinator")
    for match in MODULE.finditer(prose(page)):
        if not any((base / match["path"]).exists() for base in bases):
            yield match["path"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_modules_on_a_page_exist(page: Path) -> None:
    assert [*broken_links(page), *missing_modules(page)] == []


def test_every_package_has_a_readme() -> None:
    packages = [each for each in SOURCES.iterdir() if (each / "__init__.py").exists()]
    assert [each.name for each in packages if not (each / "README.md").exists()] == []
