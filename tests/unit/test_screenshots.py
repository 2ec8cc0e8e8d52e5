"""Screenshots of the pages: complete, used, and small."""

import re
from importlib.resources import files
from pathlib import Path

from tools.screenshots import FOLDER, SHOTS

ROOT = Path(__file__).parents[2]
BYTES_MAX = 1_600_000
SHOWN = re.compile(r"!\[[^\]]+\]\(([^)]*screenshots/[a-z-]+\.png)\)")


def screenshots_in(page: str) -> set[Path]:
    """Return the screenshots that a page shows."""
    here = ROOT / page
    return {(here.parent / found).resolve() for found in SHOWN.findall(here.read_text())}


def test_every_screenshot_exists_and_is_shown() -> None:
    wanted = {(ROOT / FOLDER / f"{shot.name}.png").resolve() for shot in SHOTS}
    assert {path.resolve() for path in (ROOT / FOLDER).iterdir()} == wanted
    assert screenshots_in("docs/howto/web-pages.md") == wanted


def test_every_page_has_a_screenshot() -> None:
    bar = (files("gigafactory.web") / "templates" / "layout.html").read_text()
    pages = set(re.findall(r"\('(/[a-z]*)', '[A-Z][a-z ]+'\)", bar))
    assert {"/", "/jobs", "/fleet", "/new", "/budget", "/insights", "/settings"} <= pages
    within = {"/jobs?view=board", "{terms}", "{terms}/diff", "{checkout}/roadmap"}
    pictured = {shot.place for shot in SHOTS}
    assert within <= pictured
    assert pages <= {place.partition("?")[0] for place in pictured}


def test_readme_shows_the_main_screenshots() -> None:
    assert {path.name for path in screenshots_in("README.md")} == {"home.png", "job.png"}


def test_total_size_of_screenshots_is_limited() -> None:
    assert sum(path.stat().st_size for path in (ROOT / FOLDER).iterdir()) < BYTES_MAX
