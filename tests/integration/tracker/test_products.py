"""Tickets of several products: a shared tracker, a tracker per product, and limited tokens."""

from pathlib import Path

import pytest

from gigafactory.config.settings import ProductTrackerSettings as Told
from gigafactory.config.settings import TrackerSettings
from gigafactory.domain.errors import Invalid
from gigafactory.domain.tenancy.access import Role
from gigafactory.wiring.trackers import open_trackers
from tests.services.items_server import Items, an_items_server
from tests.support.tracker_fleet import ENVIRON, Fleet, a_fleet


async def titles(fleet: Fleet, product: str) -> list[str]:
    async with fleet.server.client(product=product) as client:
        found = (await client.get("/jobs?sort=oldest")).json()["jobs"]
    return [job["title"] for job in found]


async def test_shared_tracker_assigns_tickets_to_their_products(
    items: Items, tmp_path: Path
) -> None:
    async with an_items_server() as shared:
        everybody = Told(url=shared.url, token_env="TRACKER_TOKEN")
        async with a_fleet(items, tmp_path, others={"*": everybody}) as fleet:
            web = shared.file("For web", productId="web")
            strange = shared.file("For no product", productId="../etc")
            unnamed = shared.file("For anybody")
            other = shared.file("For notes, which has its own", productId="notes")
            async with fleet.server.client(product="web") as client:
                asked = await client.post("/tracker/ingest")
                foreign = await client.post("/tracker/ingest", json={"itemId": other})
            eve = await fleet.server.token("eve", Role.OPERATOR, ["shop"])
            async with fleet.server.client(eve, product=None) as client:
                for item in (web, unnamed, other):
                    hidden = await client.post("/tracker/ingest", json={"itemId": item})
                    assert hidden.status_code == 404, "an item of another product"
            assert [job["title"] for job in asked.json()["jobs"]] == ["For web"]
            assert foreign.status_code == 422
            await fleet.import_tickets()
            assert await titles(fleet, "web") == ["For web"]
            assert await titles(fleet, "default") == ["For anybody"]
            assert await titles(fleet, "notes") == []
            assert shared.comments[other] == shared.comments[strange] == []
            await fleet.update_tickets()
            assert shared.stages(web) == ["fleet:queued"]


async def test_token_of_another_product_cannot_read_or_write_tickets(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello", labels=["agent:run", "priority:soon"])
    token = await fleet.server.token("eve", Role.OPERATOR, ["other"])
    viewer = await fleet.server.token("vic", Role.VIEWER, ["notes"])
    asked = len(items.asked)
    for secret, product in ((token, "notes"), (token, None), (viewer, "notes")):
        async with fleet.server.client(secret, product=product) as client:
            for body in ({}, {"itemId": item}):
                refused = await client.post("/tracker/ingest", json=body)
                assert refused.status_code in {403, 404}, refused.text
    assert len(items.asked) == asked
    await fleet.import_tickets()
    items.items[item]["labels"] = ["agent:run"]
    await fleet.import_tickets()
    [job] = await fleet.jobs()
    async with fleet.server.client(token, product=None) as client:
        assert (await client.post("/tracker/echo", json={"jobId": job["id"]})).status_code == 404


async def test_late_ticket_change_applies_after_its_job_has_ended(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    async with fleet.worker() as worker:
        await worker.beat(capabilities=["os:mac", "repo:notes"])
        grant = await worker.granted()
        items.items[item]["description"] = "In French."
        await fleet.import_tickets()
        await worker.report(grant, stage="failed", result="scope_violation", reason="left it")
    await fleet.update_tickets()
    labels = items.items[item]["labels"]
    items.items[item]["labels"] = [label for label in labels if label != "needs-triage"]
    await fleet.import_tickets()
    assert [job["stage"] for job in await fleet.jobs()] == ["failed", "queued"]
    assert items.openings(item)[0].startswith("No job was created")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Told(url="http://tracker.example.com", token_env="TRACKER_TOKEN"), "https"),
        (Told(url="https://github.com/acme"), "owner/name"),
        (Told(url="https://tracker.example.com", token_env="NONE"), "variable NONE"),
        (Told(), "no url"),
        (Told(kind="items", secret_env="TRACKER_SECRET"), "no url"),
    ],
)
async def test_invalid_tracker_setting_is_rejected_and_named(told: Told, words: str) -> None:
    with pytest.raises(Invalid, match=r"tracker\.products\.notes") as refused:
        async with open_trackers(TrackerSettings(products={"notes": told}), ENVIRON):
            pass
    assert words in str(refused.value)
