"""Take the screenshots of the documentation from the demo: `make screenshots`."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.async_api import Browser, Page, StorageState, async_playwright

from tests.services import chromium

FOLDER = Path("docs/screenshots")
SEED = 7
WIDE = (1280, 800)
TALL = (1280, 1500)
LOW = (1280, 480)
PHONE = (390, 844)
AQ = Path(sys.executable).with_name("aq")
LIVE = '#live[data-state="live"]'
WITHIN_S = 120.0

NEW_JOB = """---
name: dark-mode
repo: shop
engine: command
capabilities: ['factory:mac-1']
verify: test -s dark.css
---
# A dark look

echo 'body { background: #111 }' > dark.css
"""


class Shot(NamedTuple):
    """One screenshot: its page, appearance, and the element to wait for."""

    name: str
    place: str
    sees: str = "main"
    look: Literal["light", "dark"] = "light"
    size: tuple[int, int] = WIDE


SHOTS = (
    Shot("home", "/", ".column.review .card"),
    Shot("home-dark", "/", ".column.review .card", look="dark"),
    Shot("home-phone", "/", ".column.review .card", size=PHONE),
    Shot("fleet", "/fleet", ".factory.online .cards li"),
    Shot("jobs", "/jobs", "table tbody tr:nth-child(8)"),
    Shot("board", "/jobs?view=board", ".board .card"),
    Shot("job", "{terms}", ".terminal div"),
    Shot("job-dark", "{terms}", ".terminal div", look="dark"),
    Shot("diff", "{terms}/diff", "table.code tr.add"),
    Shot("roadmap", "{checkout}/roadmap", "svg.dag .box"),
    Shot("new", "/new", "#verdict strong:text('dark-mode')"),
    Shot("budget", "/budget", "svg.chart .dot"),
    Shot("insights", "/insights?days=7&show=runs", "dl.tiles", size=TALL),
    Shot("settings", "/settings"),
    Shot("audit", "/audit", "table.audit tbody th", size=LOW),
    Shot("login", "/login"),
)


@asynccontextmanager
async def a_demo() -> AsyncIterator[str]:
    """Run the demo and yield the address that signs a browser in."""
    with tempfile.TemporaryDirectory() as home:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AQ_")}
        # Keep the name of the user out of the screenshots.
        environ = kept | {"HOME": home, "TMPDIR": home, "LOGNAME": "ann", "NO_COLOR": "1"}
        playing = await asyncio.create_subprocess_exec(
            *(str(AQ), "demo", "--seed", str(SEED), "--port", "0"),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert playing.stdout is not None
            async for line in playing.stdout:
                if found := re.search(rb"http://\S+/login\?code=\S+", line):
                    yield found[0].decode()
                    break
            else:
                raise RuntimeError("the demo did not begin")
        finally:
            playing.terminate()
            await playing.wait()


async def signed_in(browser: Browser, address: str) -> StorageState:
    """Sign in once and return the cookies for all screenshots."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_selector(LIVE)
    kept = await context.storage_state()
    await context.close()
    return kept


async def places(page: Page) -> dict[str, str]:
    """Return the addresses of the jobs to show, once a review waits and a job was built."""
    found = {}
    for name, title in (("terms", "Rewrite the terms of sale"), ("checkout", "A new checkout")):
        await page.goto(f"/jobs?q={title.split()[-1]}")
        link = page.get_by_role("link", name=title, exact=True).first
        await link.wait_for()
        found[name] = str(await link.get_attribute("href"))
    return found


async def shoot(
    browser: Browser, base: str, kept: StorageState, shot: Shot, jobs: dict[str, str]
) -> None:
    """Take one screenshot when its element is visible."""
    width, height = shot.size
    state = None if shot.name == "login" else kept
    context = await browser.new_context(
        base_url=base,
        storage_state=state,
        color_scheme=shot.look,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
    )
    page = await context.new_page()
    page.set_default_timeout(WITHIN_S * 1000)
    await page.goto(shot.place.format(**jobs))
    if shot.name == "new":
        await page.get_by_label("A job file").fill(NEW_JOB)
    await page.locator(shot.sees).first.wait_for()
    if await page.locator("#live").count():
        await page.wait_for_selector(LIVE)
    await page.screenshot(path=FOLDER / f"{shot.name}.png", scale="css")
    await context.close()


async def main() -> None:
    """Take all screenshots."""
    program, environ = chromium.program()
    async with a_demo() as address, async_playwright() as playwright:
        base = address.partition("/login")[0]
        browser = await playwright.chromium.launch(
            executable_path=program, args=list(chromium.FLAGS), env=dict(environ)
        )
        kept = await signed_in(browser, address)
        context = await browser.new_context(base_url=base, storage_state=kept)
        jobs = await places(await context.new_page())
        await context.close()
        for shot in SHOTS:
            await shoot(browser, base, kept, shot, jobs)
        await browser.close()


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    asyncio.run(main())
