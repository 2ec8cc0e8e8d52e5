"""Trackers that are down or lose responses, and updaters that crash: each update is made once."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.config.settings import ProductTrackerSettings as Told
from gigafactory.domain.tracker.ticket_update import INTENT_TTL, TicketCursor
from gigafactory.store.sqlite.store import SqliteStore
from tests.services.items_server import Items, an_items_server
from tests.support.tracker_fleet import Fleet, a_fleet


async def at_work(fleet: Fleet) -> None:
    """Claim the next job as a factory and report it up to its review."""
    async with fleet.worker() as worker:
        await worker.beat(capabilities=["os:mac", "repo:notes"])
        grant = await worker.granted()
        assert (await worker.report(grant, stage="building")).status_code == 200
        checkpoint = {"branch": "aq/job/x", "commit": "abc"}
        done = await worker.report(grant, stage="review", checkpoint=checkpoint)
        assert done.status_code == 200


async def test_tracker_outage_delays_only_ticket_updates(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    items.away = True
    await at_work(fleet)
    for _ in range(13):
        await fleet.import_tickets()
        await fleet.update_tickets()
        fleet.clock.offset += timedelta(minutes=5)
    assert [job["stage"] for job in await fleet.jobs()] == ["review"]
    assert items.comments[item] == []
    items.away = False
    await fleet.update_tickets()
    assert items.openings(item) == [
        "Started on factory mac-1 with claude",
        "Done, and waiting for a review",
    ]
    fleet.clock.offset += timedelta(hours=1)
    await fleet.update_tickets()
    assert len(items.comments[item]) == 2


async def test_unavailable_tracker_is_retried_with_backoff(fleet: Fleet, items: Items) -> None:
    items.file("Say hello")
    await fleet.import_tickets()
    items.away = True
    await fleet.update_tickets()
    before = len(items.asked)
    for _ in range(20):
        await fleet.update_tickets()
    assert len(items.asked) == before, "not before its pause is over"
    fleet.clock.offset += timedelta(seconds=6)
    await fleet.update_tickets()
    assert len(items.asked) == before + 1


async def test_unavailable_tracker_does_not_delay_others(items: Items, tmp_path: Path) -> None:
    async with an_items_server() as others:
        theirs = Told(url=others.url, token_env="TRACKER_TOKEN")
        async with a_fleet(items, tmp_path, others={"web": theirs}) as fleet:
            away, fine = items.file("Say hello"), others.file("Say goodbye")
            await fleet.import_tickets()
            items.away = True
            await fleet.update_tickets()
            assert others.stages(fine) == ["fleet:queued"]
            assert items.stages(away) == []


@pytest.mark.parametrize("lost", [{"POST"}, {"PATCH"}, {"GET"}, {"POST", "PATCH"}])
async def test_lost_response_repeats_no_comment_or_label(
    fleet: Fleet, items: Items, lost: set[str]
) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    await at_work(fleet)
    items.loses = lost
    for _ in range(3):
        await fleet.update_tickets()
        fleet.clock.offset += timedelta(minutes=5)
    items.loses = set()
    await fleet.update_tickets()
    assert items.openings(item) == [
        "Started on factory mac-1 with claude",
        "Done, and waiting for a review",
    ]
    assert items.stages(item) == ["fleet:review"]


async def test_successor_checks_before_repeating_an_intended_comment(
    fleet: Fleet, items: Items
) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    await fleet.update_tickets()
    await at_work(fleet)
    items.loses = {"POST"}
    await fleet.update_tickets()
    assert len(items.comments[item]) == 1
    items.loses = set()
    [trail] = await fleet.store.records(TicketCursor)
    assert trail.intent is not None, "what was about to be said is on record"
    successor = fleet.successor("second")
    await fleet.coordinator.ticket_updater._leadership.resign()  # noqa: SLF001 - as if it had died
    await successor.load()
    await successor.ticket_updater.step()
    assert len(items.comments[item]) == 1, "the first may still be speaking"
    fleet.clock.offset += INTENT_TTL
    await successor.ticket_updater.step()
    assert items.openings(item) == [
        "Started on factory mac-1 with claude",
        "Done, and waiting for a review",
    ]
    await fleet.update_tickets()
    assert len(items.comments[item]) == 2


async def test_concurrent_updaters_comment_once(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    await at_work(fleet)
    [job] = await fleet.jobs()
    second = fleet.successor("second")
    await second.load()
    async with fleet.client() as client:
        asked = [client.post("/tracker/echo", json={"jobId": job["id"]}) for _ in range(4)]
        await asyncio.gather(*asked, fleet.update_tickets(), second.ticket_updater.step())
    fleet.clock.offset += INTENT_TTL
    await fleet.update_tickets()
    openings = items.openings(item)
    assert len(openings) == len(set(openings))
    assert openings[-1] == "Done, and waiting for a review"


async def test_updates_during_downtime_are_sent_afterwards(items: Items, tmp_path: Path) -> None:
    item = items.file("Say hello")
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        async with a_fleet(items, tmp_path, store=store) as first:
            await first.import_tickets()
            await first.update_tickets()
            await at_work(first)
        async with a_fleet(items, tmp_path, store=store) as second:
            await second.update_tickets()
            assert items.openings(item) == [
                "Started on factory mac-1 with claude",
                "Done, and waiting for a review",
            ]


async def test_update_of_a_deleted_ticket_is_given_up(fleet: Fleet, items: Items) -> None:
    item = items.file("Say hello")
    await fleet.import_tickets()
    del items.items[item]
    await fleet.update_tickets()
    [job] = await fleet.jobs()
    events = await fleet.store.events(job["id"])
    assert "refused" in events[-1].data
    assert job["stage"] == "queued"


async def test_manual_update_reports_an_unavailable_tracker(fleet: Fleet, items: Items) -> None:
    items.file("Say hello")
    await fleet.import_tickets()
    [job] = await fleet.jobs()
    items.away = True
    async with fleet.client() as client:
        away = await client.post("/tracker/echo", json={"jobId": job["id"]})
        unread = await client.post("/tracker/ingest")
        items.away = False
        response = await client.post("/tracker/echo", json={"jobId": job["id"]})
        again = await client.post("/tracker/echo", json={"jobId": job["id"]})
    assert (away.status_code, away.json()["code"]) == (503, "tracker_away")
    assert (unread.status_code, unread.json()["code"]) == (503, "tracker_away")
    assert (response.json()["echoed"], again.json()["echoed"]) == (1, 0)
