"""The history checker of the crash tests finds every kind of tampering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event, Job
from tests.services.fork_server import ForkServer
from tests.support.crash.history_checker import (
    HistoryChecker,
    RecordedRequest,
    open_store,
    read_requests,
    read_store,
)
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import ReceivedResponse, admin_client
from tests.support.crash.scenarios import ship_job

changed = msgspec.structs.replace


@dataclass(frozen=True)
class Evidence:
    """The input of the history checker."""

    entries: Sequence[FeedEntry]
    jobs: Sequence[Job]
    asked: Sequence[RecordedRequest]
    notes: Sequence[ReceivedResponse]

    def found(self) -> list[str]:
        return list(HistoryChecker(self.entries, self.jobs, self.asked, self.notes).findings())

    def with_events(self, change: Callable[[Event], Event]) -> "Evidence":
        entries = [FeedEntry(change(entry.event), entry.job) for entry in self.entries]
        return replace(self, entries=entries)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def evidence(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder: Path = tmp_path_factory.mktemp("judged")
    coordinator = RestartingCoordinator(forks, folder)
    async with running_coordinator(coordinator), admin_client(coordinator) as admin:
        await ship_job(coordinator, admin)
        await coordinator.stop()
    async with open_store(folder / "data" / "fleet.db") as kept:
        entries, jobs = await read_store(kept)
    return Evidence(entries, jobs, read_requests(coordinator.history), admin.responses)


def without_the_last_event(true: Evidence) -> Evidence:
    return replace(true, entries=true.entries[:-1])


def without_one_event(true: Evidence) -> Evidence:
    return replace(true, entries=[*true.entries[:9], *true.entries[10:]])


def with_a_changed_event(true: Evidence) -> Evidence:
    def change(event: Event) -> Event:
        return changed(event, type="note") if event.type == "checkpoint" else event

    return true.with_events(change)


def without_a_job(true: Evidence) -> Evidence:
    return replace(true, jobs=true.jobs[:-1])


def with_an_older_job(true: Evidence) -> Evidence:
    return replace(true, jobs=[changed(job, rev=1) for job in true.jobs])


def with_a_repeated_epoch(true: Evidence) -> Evidence:
    def change(event: Event) -> Event:
        again = event.type == "assigned" and event.data["epoch"] == 2
        return changed(event, data=event.data | {"epoch": 1}) if again else event

    return true.with_events(change)


def lease_has_no_end(true: Evidence) -> Evidence:
    def change(event: Event) -> Event:
        return changed(event, type="note") if event.type == "review_requested" else event

    return true.with_events(change)


def with_a_grant_for_two_factories(true: Evidence) -> Evidence:
    granted = next(note for note in true.notes if note.path == "/claim" and note.body)
    return replace(true, notes=[*true.notes, changed(granted, who="mac-2")])


def grant_is_given_to_two_requests(true: Evidence) -> Evidence:
    granted = next(note for note in true.notes if note.path == "/claim" and note.body)
    return replace(true, notes=[*true.notes, changed(granted, key="another")])


def with_an_impossible_stage(true: Evidence) -> Evidence:
    def falsify(note: ReceivedResponse) -> ReceivedResponse:
        wrong = isinstance(note.body, dict) and note.body.get("stage") == "shipped"
        return changed(note, body=note.body | {"stage": "review"}) if wrong else note

    return replace(true, notes=[falsify(note) for note in true.notes])


def one_place_is_acknowledged_twice(true: Evidence) -> Evidence:
    accepted = next(asked for asked in true.asked if asked.accepted and asked.changes)
    return replace(true, asked=[*true.asked, accepted])


def offer_stands_twice(true: Evidence) -> Evidence:
    def change(event: Event) -> Event:
        offers = {"checkpoint", "usage"}
        return changed(event, type="offered") if event.type in offers else event

    return replace(true.with_events(change), asked=[], notes=[])


@pytest.mark.asyncio(loop_scope="module")
async def test_untampered_history_has_no_findings(evidence: Evidence) -> None:
    assert evidence.found() == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("tampered", "words"),
    [
        (without_the_last_event, "is lost"),
        (without_one_event, "has gaps"),
        (with_a_changed_event, "is lost"),
        (without_a_job, "returned a lost job"),
        (with_an_older_job, "returned a lost job"),
        (with_a_repeated_epoch, "was granted epoch 1 after 1"),
        (lease_has_no_end, "held it"),
        (with_a_grant_for_two_factories, " of mac-1"),
        (grant_is_given_to_two_requests, "two requests"),
        (with_an_impossible_stage, "returned an uncommitted job"),
        (one_place_is_acknowledged_twice, "has a position that is taken"),
        (offer_stands_twice, "two offers at a time"),
    ],
)
async def test_tampered_history_is_found(
    evidence: Evidence, tampered: Callable[[Evidence], Evidence], words: str
) -> None:
    assert any(words in finding for finding in tampered(evidence).found())
