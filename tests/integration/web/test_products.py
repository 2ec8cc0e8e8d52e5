"""Choosing a product: effect on the pages and access."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest_asyncio

from gigafactory.domain.tenancy.access import Role
from gigafactory.web.site.session import PRODUCT_COOKIE
from tests.support.api_server import Server, a_server
from tests.support.jobs_api import submit_job
from tests.support.web_session import Visitor, an_anonymous_browser


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with a_server(tmp_path) as made:
        for product in ("notes", "shop"):
            async with made.client(product=product) as admin:
                document = {"manifest": {"name": f"of-{product}"}, "body": f"# Work of {product}"}
                await submit_job(admin, {**document})
        yield made


async def chooses(ann: Visitor, product: str, back: str = "/") -> httpx.Response:
    answer = await ann.send("/product", product=product, back=back)
    assert answer.status_code == 303, answer.text
    return answer


async def visible_work(ann: Visitor, place: str) -> tuple[bool, bool]:
    text = await ann.page(place)
    found = text[text.index("<main") :]
    return "of-notes" in found or "Work of notes" in found, "Work of shop" in found


async def test_all_products_are_shown_until_one_is_chosen(ann: Visitor) -> None:
    for place in ("/", "/jobs", "/jobs?view=board"):
        assert await visible_work(ann, place) == (True, True)
    answer = await chooses(ann, "notes", back="/jobs")
    assert answer.headers["location"] == "/jobs"
    assert "HttpOnly" in answer.headers["set-cookie"]
    for place in ("/", "/jobs", "/jobs?view=board"):
        assert await visible_work(ann, place) == (True, False)
    assert "<option selected>notes</option>" in await ann.page("/")
    await chooses(ann, "")
    assert PRODUCT_COOKIE not in ann.http.cookies
    assert await visible_work(ann, "/") == (True, True)


async def test_budgets_and_halts_are_those_of_the_chosen_product(
    ann: Visitor, server: Server
) -> None:
    assert (await ann.send("/budget/shop/pause", reason="later")).status_code == 303
    await chooses(ann, "notes")
    text = await ann.page("/budget")
    assert ("Pause notes" in text, "Resume shop" in text) == (True, False)
    assert "shop is paused" not in await ann.page("/")
    assert 'value="notes">Halt notes' in await ann.page("/fleet")
    await ann.send("/halt", product="notes", reason="wait")
    fleet = server.coordinator.index.fleet
    assert (fleet.stop_reason("notes") is None, fleet.stop_reason("shop") is None) == (False, False)
    await ann.send("/budget/shop/resume")
    await server.coordinator.index.catch_up()
    assert fleet.stop_reason("shop") is None


async def test_fleet_halt_can_be_ended_with_a_product_chosen(ann: Visitor, server: Server) -> None:
    await ann.send("/halt", product="*")
    await chooses(ann, "notes")
    assert 'name="product" value="*">Resume the whole fleet' in await ann.page("/fleet")
    await ann.send("/resume", product="*")
    await server.coordinator.index.catch_up()
    assert server.coordinator.index.fleet.stop_reason("shop") is None


async def test_job_of_another_product_is_found_by_url(ann: Visitor, server: Server) -> None:
    async with server.client(product="shop") as admin:
        job_id = (await admin.get("/jobs/of-shop")).json()["id"]
    await chooses(ann, "notes")
    assert "Work of shop" in await ann.page(f"/jobs/{job_id}")


async def test_invisible_or_unknown_product_cannot_be_chosen(server: Server) -> None:
    secret = await server.token("eve", Role.VIEWER, ["notes"])
    async with an_anonymous_browser(server) as http:
        await http.post("/login", data={"token": secret})
        eve = Visitor(http)
        assert 'action="/product"' not in await eve.page("/"), "there is nothing to choose from"
        assert (await eve.send("/product", product="shop")).status_code == 404
        http.cookies.set(PRODUCT_COOKIE, "shop")
        assert await visible_work(eve, "/jobs") == (True, False)


async def test_redirect_back_is_limited_to_own_pages(ann: Visitor) -> None:
    for back in ("//elsewhere.example", "https://elsewhere.example", "/jobs/x"):
        assert (await chooses(ann, "notes", back)).headers["location"] == "/"
