"""Webhook deliveries of trackers: signatures, replays and size limits."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gigafactory.config.settings import ProductTrackerSettings as Told
from gigafactory.domain.tracker.webhook_delivery import signature
from tests.services.items_server import Items
from tests.support.tracker_fleet import SECRET, Fleet, a_fleet


async def deliver(
    fleet: Fleet,
    body: bytes,
    *,
    signed: str | None = None,
    delivery: str = "1",
    product: str = "notes",
) -> httpx.Response:
    shown = signature(SECRET.encode(), body) if signed is None else signed
    headers = {"x-hub-signature-256": shown, "x-github-delivery": delivery}
    async with fleet.server.client("", product=None, **headers) as client:
        return await client.post(f"/tracker/webhook?product={product}", content=body)


def told_of(item: dict[str, Any]) -> bytes:
    return json.dumps({"action": "updated", "item": item}).encode()


async def test_webhook_imports_the_current_ticket_instead_of_the_delivered_one(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello")
    stale = items.items[item] | {"title": "Older words"}
    answer = await deliver(fleet, told_of(stale))
    assert answer.status_code == 202, answer.text
    [job] = answer.json()["jobs"]
    assert job["title"] == "Say hello"


async def test_webhook_ignores_a_ticket_without_the_agent_label(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello", labels=[])
    answer = await deliver(fleet, told_of(items.items[item]))
    assert (answer.status_code, answer.json()["jobs"]) == (202, [])
    ping = await deliver(fleet, b'{"zen": "Keep it logically awesome."}', delivery="2")
    assert (ping.status_code, await fleet.jobs()) == (202, [])


async def test_bug_ticket_naming_a_shipped_job_is_its_defect(fleet: Fleet, items: Items) -> None:
    async with fleet.client() as client, fleet.worker() as worker:
        said = {
            "manifest": {"name": "a", "ship": "none", "reviewPolicy": "manual"},
            "body": "Do it.",
        }
        job_id = (await client.post("/jobs", json=said)).json()["id"]
        grant = await worker.granted()
        for result in ({"stage": "building"}, {"stage": "review", "result": "ok"}):
            assert (await worker.report(grant, **result)).status_code == 200
        for action in ("approve", "ship"):
            assert (await client.post(f"/jobs/{job_id}/actions/{action}", json={})).is_success
    words = {"description": f"Since {job_id} the totals are wrong."}
    asked = items.file("More totals", labels=[], **words)
    bug = items.file("Wrong totals", type="bug", labels=[], **words)
    handed = items.file("Mend the totals", labels=["agent:run", "bug"], **words)
    for number, item in enumerate((asked, bug, handed, bug)):
        body = told_of(items.items[item] | {"again": number})
        assert (await deliver(fleet, body, delivery=str(number))).status_code == 202
    await fleet.import_tickets()
    assert (await fleet.job(job_id)).defects == (f"ticket:{bug}", f"ticket:{handed}")


@pytest.mark.parametrize("signed", ["", "sha256=00", signature(b"another", b"{}")])
async def test_invalid_signature_is_rejected_and_audited(
    fleet: Fleet, items: Items, signed: str
) -> None:
    item = items.file("Say hello")
    answer = await deliver(fleet, told_of(items.items[item]), signed=signed)
    assert (answer.status_code, await fleet.jobs()) == (401, [])
    await fleet.server.coordinator.wrong_secrets.step()
    [event] = [each for each in await fleet.store.audit(None) if each.type == "webhook_refused"]
    assert (event.data["tracker"], event.data["attempts"]) == ("notes", 1)


async def test_repeated_invalid_signatures_are_rate_limited(fleet: Fleet) -> None:
    answers = [await deliver(fleet, b"{}", signed=f"sha256={n:02x}") for n in range(25)]
    assert [answer.status_code for answer in answers[-3:]] == [429] * 3


async def test_a_flood_of_bad_signatures_is_one_audit_event_a_minute(fleet: Fleet) -> None:
    before = len(await fleet.store.audit(None))
    for product in ("notes", "web", "unknown"):
        for number in range(30):
            await deliver(fleet, b"{}", signed=f"sha256={number:02x}", product=product)
    assert len(await fleet.store.audit(None)) == before
    for _ in range(3):
        await fleet.server.coordinator.wrong_secrets.step()
    found = [each for each in await fleet.store.audit(None) if each.type == "webhook_refused"]
    assert [each.data["attempts"] for each in found] == [30]


async def test_product_without_a_webhook_secret_rejects_deliveries(fleet: Fleet) -> None:
    for product in ("other", "web"):
        unsigned = await deliver(fleet, b"{}", signed=signature(b"", b"{}"), product=product)
        assert unsigned.status_code == 401


async def test_replayed_delivery_is_rejected_even_under_another_id(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello")
    body = told_of(items.items[item])
    assert (await deliver(fleet, body)).status_code == 202
    for delivery in ("1", "2"):
        again = await deliver(fleet, body, delivery=delivery)
        assert (again.status_code, again.json()["code"]) == (409, "replayed")
    other = await deliver(fleet, told_of(items.items[item] | {"type": "bug"}), delivery="1")
    assert other.status_code == 409
    assert len(await fleet.jobs()) == 1


async def test_a_replay_is_refused_after_years(fleet: Fleet, items: Items) -> None:
    body = told_of(items.items[items.file("Say hello")])
    assert (await deliver(fleet, body)).status_code == 202
    fleet.clock.offset = timedelta(days=1000)
    await fleet.server.coordinator.janitor.step()
    assert (await deliver(fleet, body, delivery="2")).status_code == 409


async def test_failed_delivery_may_be_repeated(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    items.away = True
    assert (await deliver(fleet, told_of(items.items[item]))).status_code == 503
    items.away = False
    assert (await deliver(fleet, told_of(items.items[item]))).status_code == 202


async def test_too_large_or_malformed_delivery_is_rejected(fleet: Fleet) -> None:
    assert (await deliver(fleet, b" " * (2 << 20))).status_code == 413
    assert (await deliver(fleet, b"{", delivery="2")).status_code == 400
    assert (await deliver(fleet, b'{"item": 7}', delivery="3")).status_code == 422
    assert (await deliver(fleet, b"[" * 100_000, delivery="4")).status_code in {400, 422}


async def test_delivery_of_an_invalid_ticket_is_rejected(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello", labels=["agent:run", "priority:soon"])
    answer = await deliver(fleet, told_of(items.items[item]))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "needs-triage" in items.items[item]["labels"]


async def test_send_only_tracker_is_trusted_and_receives_no_updates(
    items: Items, tmp_path: Path
) -> None:
    alone = Told(secret_env="TRACKER_SECRET")
    async with a_fleet(items, tmp_path, others={"web": alone}) as fleet:
        body = told_of({"id": "W-1", "title": "Say hello", "labels": ["agent:run", "repo:web"]})
        answer = await deliver(fleet, body, product="web")
        assert answer.status_code == 202, answer.text
        [job] = answer.json()["jobs"]
        await fleet.update_tickets()
        async with fleet.server.client(product="web") as client:
            response = await client.post("/tracker/echo", json={"jobId": job["id"]})
            read = await client.post("/tracker/ingest", json={"itemId": "W-1"})
            nothing = await client.post("/tracker/ingest")
        assert (response.status_code, response.json()["code"]) == (409, "tracker_refused")
        assert (read.status_code, read.json()["code"]) == (409, "tracker_refused")
        assert (nothing.status_code, nothing.json()["jobs"]) == (200, [])
