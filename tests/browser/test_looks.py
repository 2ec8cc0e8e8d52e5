"""Layout and accessibility of all pages, in light and dark and at all widths."""

import hashlib
from typing import Literal

import pytest
from playwright.async_api import Browser

from tests.browser.people import Visitor
from tests.services.node_packages import packed
from tests.support.api_server import Server
from tests.support.factory.local_fleet import FactoryHarness
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = (
    *("/", "/jobs", "/jobs?view=board", "/jobs/{job}", "/jobs/{job}/diff", "/fleet", "/new"),
    *("/jobs/{roadmap}/roadmap", "/jobs/{roadmap}", "/jobs/{roadmap}/children"),
    *("/budget", "/insights", "/settings", "/settings/profiles/qa", "/audit"),
    *("/artifacts/{artifact}/text", "/no/such/page", "/login?ended=yes"),
)
AXE = "4.14.0"
GRAVE = {"serious", "critical"}
WIDTHS = (2560, 390, 1280)
LOOKS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SCAN = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const shown = nodes => nodes.map(each => each.html).slice(0, 3);
  return found.violations.map(each => [each.impact, each.id, shown(each.nodes)]);
}"""


async def places(yard: FactoryHarness) -> list[str]:
    """Return the URLs of all pages, with content on each."""
    children = [{"name": "page", "body": "x"}, {"name": "guide", "body": "x", "deps": ["page"]}]
    manifest = {"name": "roadmap", "kind": "composite", "children": children}
    asked = {"manifest": manifest, "body": "# All of it"}
    made = await yard.api.post("/jobs", json=asked)
    assert made.status_code == 201, made.text
    await yard.api.post("/enrollments", json={"products": ["notes"]})
    await yard.api.put("/budgets/notes", json={"ceilingUsd": "10"})
    names = {"job": await a_job(yard), "roadmap": made.json()["id"]}
    names["artifact"] = await a_file(yard, names["job"])
    return [place.format(**names) for place in PAGES]


async def a_file(yard: FactoryHarness, job_id: str) -> str:
    data = b"# A report\n" + b"word " * 200
    named = {"name": "reports/all.md", "sha256": hashlib.sha256(data).hexdigest()}
    asked = {**named, "mediaType": "text/markdown"}
    made = await yard.api.post(f"/jobs/{job_id}/artifacts", params=asked, content=data)
    assert made.status_code == 201, made.text
    artifact_id: str = made.json()["id"]
    return artifact_id


async def a_job(yard: FactoryHarness) -> str:
    async with yard.factory():
        job_id = await yard.submit(
            "printf 'one\\ntwo\\n' > new.txt", name="a-" + "long" * 20, reviewPolicy="manual"
        )
        await yard.wait_until_idle(job_id)
    return job_id


async def test_pages_fit_all_widths_and_are_accessible_in_light_and_dark(
    browser: Browser, yard: FactoryHarness
) -> None:
    """Check accessibility, and that nothing is loaded from another host."""
    axe = packed("axe-core", AXE, "axe.min.js").read_text()
    all_pages = await places(yard)
    assert isinstance(yard.server, Server)
    faults: list[object] = []
    asked: set[str] = set()
    # Without animations: a colour in transition belongs to neither theme.
    still = Visitor.signed_in(browser, yard.server, "ann", reduced_motion="reduce")
    async with still as ann:
        ann.page.on("request", lambda request: asked.add(request.url.partition("?")[0]))
        for place in all_pages:
            await ann.page.goto(place)
            await ann.page.evaluate(f"() => {{ {axe} }}")
            for width in WIDTHS:
                await ann.page.set_viewport_size({"width": width, "height": 900})
                wide = await ann.page.evaluate("() => document.documentElement.scrollWidth")
                if wide > width:
                    faults.append((place, f"{wide} wide", width))
            for look in LOOKS:
                await ann.page.emulate_media(color_scheme=look)
                found = await ann.page.evaluate(SCAN)
                faults += [(place, look, each) for each in found if each[0] in GRAVE]
    assert not faults, "\n".join(map(str, faults))
    assert [url for url in asked if not url.startswith(yard.server.pages)] == []


async def test_on_a_phone_charts_are_legible_and_the_current_page_is_visible(
    browser: Browser, yard: FactoryHarness
) -> None:
    await a_job(yard)
    assert isinstance(yard.server, Server)
    phone = Visitor.signed_in(browser, yard.server, "ann", viewport={"width": 390, "height": 844})
    async with phone as ann:

        async def drawn() -> bool:
            await ann.page.goto("/insights")
            return await ann.page.locator("svg.chart .axis").count() > 0

        await until(drawn)
        high = "all => all.map(each => each.getBoundingClientRect().height)"
        assert min(await ann.page.locator("svg.chart .axis").evaluate_all(high)) > 8
        here = await ann.page.locator("nav [aria-current]").bounding_box()
        assert here is not None
        assert here["x"] >= 0
        assert here["x"] + here["width"] <= 390


async def test_keyboard_navigation(ann: Visitor, yard: FactoryHarness) -> None:
    job_id = await yard.submit("echo x", name="first")
    await ann.page.locator(f'[data-open="/jobs/{job_id}"]').first.wait_for()
    await ann.page.keyboard.press("j")
    assert await ann.page.evaluate("() => document.activeElement.tagName") == "A"
    ring = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert await ann.page.evaluate(ring) == "solid", "it is seen where one is"
    await ann.page.keyboard.press("Enter")
    await ann.page.wait_for_url(f"**/jobs/{job_id}")
    await ann.live()
    await ann.page.keyboard.press("Control+k")
    await ann.page.get_by_placeholder("Go to a page or a job").fill("flee")
    await ann.page.keyboard.press("Enter")
    await ann.page.wait_for_url("**/fleet")
    await ann.live()
    await ann.page.keyboard.press("?")
    await ann.page.get_by_role("heading", name="Keys").wait_for()
    await ann.page.keyboard.press("Escape")
    await ann.page.keyboard.press("Meta+k")
    await ann.page.get_by_placeholder("Go to a page or a job").fill("jobs")
    await ann.page.keyboard.press("Enter")
    await ann.page.wait_for_url("**/jobs")


async def test_jobs_are_selected_by_keyboard_for_a_bulk_action(
    ann: Visitor, yard: FactoryHarness
) -> None:
    ids = [await yard.submit("echo x", name=name) for name in ("first", "second", "third")]
    await ann.open("/jobs")
    for key in ("j", "j", "x", "k", "x"):
        await ann.page.keyboard.press(key)
    await ann.sees("2 selected")
    assert await ann.page.locator("tr:has(:checked)").count() == 2
    # A new job must not change the selection.
    await yard.submit("echo x", name="fourth", title="The fourth")
    await ann.page.get_by_role("link", name="fourth").wait_for()
    await ann.sees("2 selected")
    await ann.clicks("Cancel")
    await ann.live()
    assert [(await yard.job(each))["stage"] for each in ids] == ["queued", *["cancelled"] * 2]
