"""Every page in light and dark, small and large: nothing sticks out, and everybody can use it."""

import hashlib

import pytest
from playwright.async_api import Browser

from tests.browser.people import Visitor
from tests.integration.factory.yard import Yard
from tests.servers import Server
from tests.services.node_packages import packed

PAGES = (
    *("/", "/jobs", "/jobs?view=board", "/jobs/{job}", "/jobs/{job}/diff", "/fleet", "/new"),
    *("/jobs/{roadmap}/roadmap", "/jobs/{roadmap}", "/budget", "/insights", "/settings"),
    *("/artifacts/{artifact}/text", "/no/such/page", "/login?ended=yes"),
)
AXE = "4.14.0"
GRAVE = {"serious", "critical"}
SCAN = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const shown = nodes => nodes.map(each => each.html).slice(0, 3);
  return found.violations.map(each => [each.impact, each.id, shown(each.nodes)]);
}"""


async def places(yard: Yard) -> list[str]:
    """The addresses of all pages, with something on each."""
    children = [{"name": "page", "body": "x"}, {"name": "guide", "body": "x", "deps": ["page"]}]
    manifest = {"name": "roadmap", "kind": "composite", "children": children}
    asked = {"manifest": manifest, "body": "# All of it"}
    made = await yard.people.post("/jobs", json=asked)
    assert made.status_code == 201, made.text
    await yard.people.put("/budgets/notes", json={"ceilingUsd": "10"})
    names = {"job": await a_job(yard), "roadmap": made.json()["id"]}
    names["artifact"] = await a_file(yard, names["job"])
    return [place.format(**names) for place in PAGES]


async def a_file(yard: Yard, job_id: str) -> str:
    data = b"# A report\n" + b"word " * 200
    named = {"name": "reports/all.md", "sha256": hashlib.sha256(data).hexdigest()}
    asked = {**named, "mediaType": "text/markdown"}
    made = await yard.people.post(f"/jobs/{job_id}/artifacts", params=asked, content=data)
    assert made.status_code == 201, made.text
    artifact_id: str = made.json()["id"]
    return artifact_id


async def a_job(yard: Yard) -> str:
    async with yard.factory():
        job_id = await yard.submit(
            "printf 'one\\ntwo\\n' > new.txt", name="a-" + "long" * 20, reviewPolicy="manual"
        )
        await yard.rests(job_id)
    return job_id


@pytest.mark.parametrize("look", ["light", "dark"])
async def test_no_page_has_a_serious_fault_for_people_who_use_it_otherwise(
    browser: Browser, yard: Yard, look: str
) -> None:
    axe = packed("axe-core", AXE, "axe.min.js").read_text()
    all_pages = await places(yard)
    assert isinstance(yard.server, Server)
    async with Visitor.signed_in(browser, yard.server, "ann", color_scheme=look) as ann:
        for place in all_pages:
            await ann.page.goto(place)
            await ann.page.evaluate(f"() => {{ {axe} }}")
            found = await ann.page.evaluate(SCAN)
            assert [each for each in found if each[0] in GRAVE] == [], place


@pytest.mark.parametrize("width", [390, 1280, 2560])
async def test_no_page_is_wider_than_its_window(browser: Browser, yard: Yard, width: int) -> None:
    all_pages = await places(yard)
    assert isinstance(yard.server, Server)
    size = {"width": width, "height": 900}
    async with Visitor.signed_in(browser, yard.server, "ann", viewport=size) as ann:
        for place in all_pages:
            await ann.page.goto(place)
            wide = await ann.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, place


async def test_everything_can_be_reached_with_keys(ann: Visitor, yard: Yard) -> None:
    job_id = await yard.submit("echo x", name="first")
    await ann.page.locator(f'[data-open="/jobs/{job_id}"]').first.wait_for()
    await ann.page.keyboard.press("j")
    assert await ann.page.evaluate("() => document.activeElement.tagName") == "A"
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
