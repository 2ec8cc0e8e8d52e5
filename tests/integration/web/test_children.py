"""Adding children to a composite."""

import pytest_asyncio

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server
from tests.support.jobs_api import submit_job
from tests.support.web_session import Visitor, a_visitor

CHILD = "---\r\nname: guide\r\ndeps: [page]\r\n---\r\n# Write the guide\r\n"
WRONG = "---\nname: guide\ndepz: []\n---\n</textarea><script>alert(1)</script>\n"


@pytest_asyncio.fixture
async def place(server: Server) -> str:
    """The URL of a composite with one child."""
    children = [{"name": "page", "body": "x"}]
    manifest = {"name": "roadmap", "kind": "composite", "children": children}
    async with server.client() as admin:
        made = await submit_job(admin, {"manifest": manifest, "body": "# All of it"})
    return f"/jobs/{made['id']}"


async def test_child_is_validated_and_added(ann: Visitor, place: str) -> None:
    for page in (place, f"{place}/roadmap"):
        assert f'href="{place}/children"' in await ann.page(page)
    assert "name: next-step" in await ann.page(f"{place}/children")
    response = await ann.send(f"{place}/children/check", text=CHILD)
    assert (
        "<strong>guide</strong> becomes part of roadmap, and waits for 1 other job."
        in response.text
    )
    assert "guide" not in await ann.page(f"{place}/roadmap"), "nothing is stored yet"
    added = await ann.send(f"{place}/children", text=CHILD)
    assert (added.status_code, added.headers["location"]) == (303, f"{place}/roadmap")
    text = await ann.page(f"{place}/roadmap")
    assert "Write the guide" in text
    assert "revision 2" in text
    response = await ann.send(f"{place}/children/check", text=CHILD)
    assert "is already part of roadmap" in response.text


async def test_faults_are_shown_next_to_the_text(ann: Visitor, server: Server, place: str) -> None:
    for where in (f"{place}/children/check", f"{place}/children"):
        refused = await ann.send(where, text=WRONG)
        assert "line 3: <code>depz</code>" in refused.text
        assert "<script>alert(1)" not in refused.text
    assert refused.status_code == 422
    assert "name: guide" in refused.text
    unknown = await ann.send(f"{place}/children", text=CHILD.replace("page", "nobody"))
    assert unknown.status_code == 422
    assert "jobs[0]" not in unknown.text
    assert (await ann.send(f"{place}/actions/cancel")).status_code == 303
    ended = await ann.send(f"{place}/children", text=CHILD)
    assert ended.status_code == 409
    assert "only a composite that is not finished" in ended.text
    assert "Write the guide" in ended.text, "what was written stays"
    assert f"{place}/children" not in await ann.page(place)


async def test_leaf_has_no_children_and_viewer_cannot_add(
    ann: Visitor, server: Server, place: str
) -> None:
    async with server.client() as admin:
        leaf = (await submit_job(admin, {"manifest": {"name": "leaf"}, "body": "# Leaf"}))["id"]
    assert "the job is a leaf" in await ann.page(f"/jobs/{leaf}/children", 404)
    assert "/children" not in await ann.page(f"/jobs/{leaf}")
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        for page in (place, f"{place}/roadmap"):
            assert "/children" not in await vera.page(page)
        await vera.page(f"{place}/children", 403)
        for where in (f"{place}/children", f"{place}/children/check"):
            assert (await vera.send(where, text=CHILD)).status_code == 403
    forged = await ann.http.post(f"{place}/children", data={"csrf": "0" * 64, "text": CHILD})
    assert forged.status_code == 403
