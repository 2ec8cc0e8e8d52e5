"""`aq from-tracker` and `aq to-tracker`, run as a person types them, in a fleet and in a folder."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.services.aq import Shell, serving
from tests.services.items_server import TOKEN, Items, an_items_server


@pytest.fixture
def tracker() -> Iterator[Items]:
    """A tracker in its own thread, because commands block."""
    ready: Future[Items] = Future()
    stop: Future[None] = Future()

    async def run() -> None:
        async with an_items_server() as world:
            ready.set_result(world)
            await asyncio.wrap_future(stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="tracker")
    thread.start()
    yield ready.result(timeout=30)
    stop.set_result(None)
    thread.join()


@pytest.fixture
def shell(tracker: Items, tmp_path: Path) -> Shell:
    (tmp_path / "aq.toml").write_text(
        "[tracker]\npoll-every = 3600\n"
        f'[tracker.products."*"]\nurl = "{tracker.url}"\ntoken-env = "TRACKER_TOKEN"\n'
    )
    return Shell(tmp_path, {"TRACKER_TOKEN": TOKEN})


def test_fleet_imports_a_ticket_once_and_updates_it(shell: Shell, tracker: Items) -> None:
    item = tracker.file("Say hello", labels=[])
    with serving(shell):
        ran = shell.aq("from-tracker", item)
        assert (ran.code, "say-hello" in ran.out) == (0, True), ran.err
        assert shell.aq("from-tracker", item).out.split()[3] == ran.out.split()[3]
        result = shell.aq("to-tracker", "say-hello")
        assert (result.code, item in result.out) == (0, True), result.err
        assert tracker.stages(item) == ["fleet:queued"]
        assert shell.aq("from-tracker", "ITEM-none").code == 3
        assert shell.aq("to-tracker").code == 2


def test_coordinator_imports_and_updates_tickets_automatically(
    shell: Shell, tracker: Items
) -> None:
    item = tracker.file("Say hello")
    with serving(shell) as served:
        deadline = threading.Event()
        for _ in range(600):
            if tracker.stages(item) == ["fleet:queued"]:
                break
            deadline.wait(0.05)
        assert tracker.stages(item) == ["fleet:queued"]
        assert served.process.poll() is None


def test_missing_tracker_token_is_reported_at_startup(shell: Shell) -> None:
    ran = Shell(shell.folder, {"TRACKER_TOKEN": ""}).aq("serve", "--port", "0")
    assert ran.code == 1
    assert "the variable TRACKER_TOKEN must contain a secret" in ran.err


def test_folder_imports_each_ticket_once(shell: Shell, tracker: Items) -> None:
    item = tracker.file("Say hello", description="In French.", labels=["agent:run", "repo:notes"])
    ran = shell.aq("from-tracker", "--folder", "queue")
    assert ran.code == 0, ran.err
    [file] = (shell.folder / "queue" / "inbox").glob("*.md")
    text = file.read_text()
    assert f"tracker-item: {item}" in text
    assert f"idempotency-key: tracker-{item}" in text
    assert text.endswith("# Say hello\n\nIn French.\n")
    again = shell.aq("from-tracker", "--folder", "queue", item)
    assert (again.code, "already" in again.err) == (0, True)
    tracker.items[item]["description"] = "In German."
    shell.aq("from-tracker", "--folder", "queue")
    [file] = (shell.folder / "queue" / "inbox").glob("*.md")
    assert file.read_text().endswith("In German.\n")


def test_folder_rejects_an_invalid_ticket_and_imports_the_rest(
    shell: Shell, tracker: Items
) -> None:
    bad = tracker.file("Say hello", labels=["agent:run", "priority:soon"])
    tracker.file("Say goodbye")
    ran = shell.aq("from-tracker", "--folder", "queue")
    assert (ran.code, bad in ran.err) == (1, True)
    assert len(list((shell.folder / "queue" / "inbox").glob("*.md"))) == 1


def test_folder_job_updates_its_ticket_once_per_stage(shell: Shell, tracker: Items) -> None:
    item = tracker.file("Say hello")
    inbox = shell.folder / "queue" / "inbox"
    inbox.mkdir(parents=True)
    job = f"---\nengine: command\ntracker-item: {item}\n---\necho the secret prompt\n"
    (inbox / "hello.md").write_text(job)
    (inbox / "plain.md").write_text("---\nengine: command\n---\ntrue\n")
    assert shell.aq("run", "--once", "queue").code == 0
    result = shell.aq("to-tracker", "--folder", "queue")
    assert (result.code, result.out) == (0, f"{item}  sent 1 update\n"), result.err
    assert tracker.openings(item) == ["Done, and waiting for a review"]
    assert "secret prompt" not in tracker.comments[item][0]
    assert "sent 0 updates" in shell.aq("to-tracker", "--folder", "queue", "hello").out
    assert shell.aq("to-tracker", "--folder", "queue", "plain").code == 1
    shell.aq("promote", "hello", "--folder", "queue")
    shell.aq("ship", "hello", "--folder", "queue")
    tracker.away = True
    assert shell.aq("to-tracker", "--folder", "queue").code == 5
    tracker.away = False
    assert "sent 2 updates" in shell.aq("to-tracker", "--folder", "queue").out
    assert (tracker.items[item]["status"], len(tracker.comments[item])) == ("done", 3)
    assert shell.aq("clean", "--folder", "queue", "--older", "0s").code == 0
    assert list((shell.folder / "queue" / ".state").glob("hello*")) == []
