"""The round trip from a ticket to shipped work and back, with a tracker over HTTP."""

from typing import Any

import pytest

from tests.services.items_server import Items
from tests.support.api_server import Worker
from tests.support.tracker_fleet import Fleet

COMMIT = "0123456789abcdef0123456789abcdef01234567"


async def built(worker: Worker) -> dict[str, Any]:
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    checkpoint = {"branch": "aq/job/x", "commit": COMMIT}
    used = {"tokensIn": 1200, "tokensOut": 300, "costUsd": "0.25"}
    done = await worker.report(grant, stage="review", checkpoint=checkpoint, usage=used)
    assert done.status_code == 200, done.text
    return grant


async def test_ticket_becomes_a_job_and_is_updated_at_each_stage(
    fleet: Fleet, items: Items
) -> None:
    item = items.file(
        "Fix the login",
        description="The secret prompt.",
        priority="high",
        labels=["agent:run", "urgent", "profile:qa"],
    )
    await fleet.import_tickets()
    [job] = await fleet.jobs()
    assert (job["title"], job["priority"], job["repo"]) == ("Fix the login", "high", "notes")
    assert job["profile"].startswith("qa@")
    await fleet.update_tickets()
    assert items.items[item]["status"] == "in_progress"
    assert items.stages(item) == ["fleet:queued"]
    async with fleet.worker() as worker, fleet.client() as admin:
        await worker.beat(capabilities=["os:mac", "repo:notes"])
        await built(worker)
        await fleet.update_tickets()
        assert items.openings(item) == [
            "Started on factory mac-1 with claude",
            "Done, and waiting for a review",
        ]
        assert "1,500 tokens, 0.25 USD" in items.comments[item][1]
        for action in ("approve", "ship"):
            asked = await admin.post(f"/jobs/{job['id']}/actions/{action}", json={"commit": COMMIT})
            assert asked.status_code == 200, asked.text
        shipping = await worker.granted()
        note = "merges https://git.example.com/me/notes/pull/7 at 0123 into main"
        await worker.report(shipping, note=note)
        assert (await worker.report(shipping, stage="shipped")).status_code == 200
    await fleet.update_tickets()
    result = items.comments[item][-1]
    assert result.startswith("Shipped.\n- commit `0123456789ab`")
    assert "pull request https://git.example.com/me/notes/pull/7" in result
    assert (items.items[item]["status"], items.stages(item)) == ("done", ["fleet:shipped"])
    assert set(items.items[item]["labels"]) >= {"agent:run", "urgent", "profile:qa"}
    assert not any("secret prompt" in text for text in items.comments[item])
    events = await fleet.store.events(job["id"])
    assert [e.data["stage"] for e in events if e.type == "tracker_echoed"] == [
        "queued",
        "building",
        "review",
        "testing",
        "shipped",
    ]
    await fleet.update_tickets()
    assert len(items.comments[item]) == 4


async def test_repeated_import_of_a_ticket_creates_one_job(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    await fleet.import_tickets()
    async with fleet.client() as client:
        again = await client.post("/tracker/ingest", json={"itemId": item})
        everything = await client.post("/tracker/ingest")
    assert (again.status_code, everything.status_code) == (200, 200)
    [job] = await fleet.jobs()
    assert again.json()["jobs"][0]["id"] == everything.json()["jobs"][0]["id"] == job["id"]


async def test_changed_ticket_replaces_its_waiting_job(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    await fleet.update_tickets()
    items.items[item]["description"] = "In French."
    await fleet.import_tickets()
    old, new = await fleet.jobs()
    assert (old["stage"], old["result"], new["stage"]) == ("cancelled", "superseded", "queued")
    await fleet.update_tickets()
    assert items.stages(item) == ["fleet:queued"]
    assert items.comments[item] == [], "a replaced job needs no attention"


async def test_ticket_changed_after_its_job_started_gets_one_comment(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    async with fleet.worker() as worker:
        await worker.beat(capabilities=["os:mac", "repo:notes"])
        await worker.granted()
        items.items[item]["title"] = "Say goodbye"
        await fleet.import_tickets()
        await fleet.import_tickets()
        async with fleet.client() as client:
            refused = await client.post("/tracker/ingest", json={"itemId": item})
    assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")
    assert len(await fleet.jobs()) == 1
    assert items.openings(item) == [
        "No job was created: idempotency key 'tracker-"
        + item
        + "' belongs to job "
        + (await fleet.jobs())[0]["id"]
        + ", with other content, which is assigned; use a new key"
    ]


async def test_failed_ticket_changed_by_people_gets_another_job(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    async with fleet.worker() as worker:
        await worker.beat(capabilities=["os:mac", "repo:notes"])
        grant = await worker.granted()
        await worker.report(grant, stage="failed", result="scope_violation", reason="secret words")
    await fleet.update_tickets()
    found = items.items[item]
    assert (found["status"], items.stages(item)) == ("in_progress", ["fleet:failed"])
    assert "needs-triage" in found["labels"]
    assert items.openings(item) == ["Failed (scope_violation)"]
    assert "secret words" not in items.comments[item][0]
    found["description"] = "Only in greet.txt."
    await fleet.import_tickets()
    assert len(await fleet.jobs()) == 1, "it waits for a person"
    found["labels"] = ["agent:run", "fleet:failed"]
    await fleet.import_tickets()
    await fleet.import_tickets()
    assert [job["stage"] for job in await fleet.jobs()] == ["failed", "queued"]


async def test_cancelled_job_marks_its_ticket_for_triage(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    [job] = await fleet.jobs()
    async with fleet.client() as client:
        await client.post(f"/jobs/{job['id']}/actions/cancel", json={"reason": "not now"})
    await fleet.update_tickets()
    assert items.items[item]["status"] == "open"
    assert "needs-triage" in items.items[item]["labels"]
    assert items.openings(item) == ["Cancelled"]


async def test_ticket_closed_by_people_is_never_reopened(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    items.items[item]["status"] = "wont_fix"
    await fleet.update_tickets()
    assert (items.items[item]["status"], items.stages(item)) == ("wont_fix", ["fleet:queued"])


async def test_invalid_ticket_gets_a_comment_and_is_marked_for_triage(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello", labels=["agent:run", "priority:soon", "profile:qa"])
    fine = items.file("Say goodbye")
    await fleet.import_tickets()
    await fleet.import_tickets()
    assert [job["title"] for job in await fleet.jobs()] == ["Say goodbye"]
    [text] = items.comments[item]
    assert "priority" in text
    assert "needs-triage" in items.items[item]["labels"]
    assert items.comments[fine] == []
    items.items[item]["labels"] = ["agent:run", "profile:qa"]
    await fleet.import_tickets()
    assert len(await fleet.jobs()) == 2


async def test_ticket_is_imported_by_assignee_and_others_are_ignored(
    fleet: Fleet, items: Items
) -> None:
    items.file("Mine", labels=[], assignee="agent")
    items.file("Yours", labels=[], assignee="ann")
    items.file("Done", status="done")
    await fleet.import_tickets()
    assert [job["title"] for job in await fleet.jobs()] == ["Mine"]


async def test_tickets_are_imported_from_all_pages(fleet: Fleet, items: Items) -> None:
    for number in range(120):
        items.file(f"Ticket {number}")
    async with fleet.client() as client:
        answer = await client.post("/tracker/ingest")
    assert (answer.status_code, len(answer.json()["jobs"])) == (201, 120)


async def test_ticket_can_be_imported_from_the_request_body(fleet: Fleet) -> None:
    item = {"id": "X-1", "title": "Say hello", "labels": ["repo:notes"]}
    async with fleet.client() as client:
        made = await client.post("/tracker/ingest", json={"item": item})
        both = await client.post("/tracker/ingest", json={"item": item, "itemId": "X-1"})
        strange = await client.post("/tracker/ingest", json={"item": {"id": "X-1"}})
    assert (made.status_code, both.status_code, strange.status_code) == (201, 422, 422)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("ingest", {"itemId": "ITEM-none"}, 404, "not_found"),
        ("echo", {"jobId": "none"}, 404, "not_found"),
        ("echo", {}, 422, "invalid"),
    ],
)
async def test_unknown_ticket_or_job_is_not_found(
    fleet: Fleet, path: str, body: dict[str, str], status: int, code: str
) -> None:
    async with fleet.client() as client:
        answer = await client.post(f"/tracker/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_missing_tracker_or_ticket_is_reported(
    fleet: Fleet,
) -> None:
    async with fleet.server.client(product="other") as other, fleet.client() as client:
        none = await other.post("/tracker/ingest")
        job = await client.post("/jobs", json={"manifest": {"name": "plain"}, "body": "Do it."})
        plain = await client.post("/tracker/echo", json={"jobId": job.json()["id"]})
    assert (none.status_code, "tracker.products" in none.json()["detail"]) == (404, True)
    assert (plain.status_code, "no ticket" in plain.json()["detail"]) == (422, True)
