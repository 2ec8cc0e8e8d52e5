"""Hostile content of jobs is shown as text: it neither runs nor becomes an element."""

import pytest
from playwright.async_api import Browser, Dialog, Page

from tests.browser.people import Visitor
from tests.support.api_server import Server, a_worker
from tests.support.factory.local_fleet import FactoryHarness

pytestmark = pytest.mark.asyncio(loop_scope="session")

SVG = "<svg/onload=document.title='pwned'>"
EVIL = f'<img src=x onerror="window.pwned=1"><script>alert(1)</script>{SVG}'
MARKDOWN = f"# {EVIL}\n\n[click](javascript:alert(1)) <iframe src=//elsewhere></iframe> {EVIL}\n"
WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  (window.violations ??= []).push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
FOUND = """() => ({
  pwned: window.pwned ?? null,
  violations: window.violations ?? [],
  elements: document.querySelectorAll(
    "main script, main iframe, main img:not([alt='']), [onerror], [onload], a[href^=javascript]"
  ).length,
})"""


async def harmless(page: Page, text: str) -> None:
    """Check that the text is visible and had no effect."""
    await page.get_by_text(text, exact=False).first.wait_for()
    found = await page.evaluate(FOUND)
    assert found == {"pwned": None, "violations": [], "elements": 0}, page.url


async def test_titles_logs_branches_comments_and_markdown_are_escaped(
    browser: Browser, yard: FactoryHarness
) -> None:
    assert isinstance(yard.server, Server)
    dialogs: list[str] = []

    async def dismissed(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    async with (
        a_worker(yard.server) as worker,
        Visitor.signed_in(browser, yard.server, "ann") as ann,
    ):
        ann.page.on("dialog", dismissed)
        await ann.page.add_init_script(WATCH)
        manifest = {"name": "evil", "title": EVIL, "reviewPolicy": "manual"}
        made = await yard.api.post("/jobs", json={"manifest": manifest, "body": MARKDOWN})
        assert made.status_code == 201, made.text
        grant = await worker.granted()
        place = f"/jobs/{grant['job']['id']}"
        await worker.report(grant, stage="building")
        await ann.open(place)
        lines = f"plain\n{EVIL}\n\x1b[31m{EVIL}\x1b[0m\n\x1b]8;;javascript:alert(1)\x07{EVIL}\n"
        sent = await worker.http.post(
            f"{place}/logs",
            params={"leaseEpoch": grant["leaseEpoch"], "offset": 0},
            content=lines.encode(),
        )
        assert sent.status_code == 200, sent.text
        await ann.page.locator("#log-lines .f1").wait_for()
        await harmless(ann.page, "plain")
        at = {"branch": SVG, "commit": "c0ffee" * 7}
        ended = await worker.report(grant, stage="review", result="ok", reason=EVIL, checkpoint=at)
        assert ended.status_code == 200, ended.text
        await ann.page.locator(".stage.review").wait_for()
        await harmless(ann.page, SVG)
        asked = await ann.page.locator("#asked + pre").inner_text()
        assert asked.rstrip() == MARKDOWN.rstrip()
        for where in ("/", "/jobs", "/jobs?view=board", "/insights"):
            await ann.page.goto(where)
            if where != "/insights":
                await harmless(ann.page, "window.pwned=1")
        await ann.page.goto("/new")
        await ann.page.get_by_label("A job file").fill(f"---\n{SVG}: 1\n---\n{MARKDOWN}")
        await harmless(ann.page, "onload=document.title")
        await ann.page.goto(f"/no/such/{SVG}")
        await harmless(ann.page, "There is no page at")
    assert dialogs == []


async def test_the_palette_shows_titles_as_text(ann: Visitor, yard: FactoryHarness) -> None:
    await yard.submit("echo x", name="evil", title=EVIL)
    await ann.sees("window.pwned=1")
    await ann.page.keyboard.press("Control+k")
    shown = ann.page.get_by_role("option", name="window.pwned=1")
    await shown.wait_for()
    assert EVIL in await shown.inner_text()
    assert (await ann.page.evaluate(FOUND))["elements"] == 0
