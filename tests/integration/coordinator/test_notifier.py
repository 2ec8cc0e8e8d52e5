"""Notifications of attention items: a real coordinator sends messages to a real receiver."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gigafactory.config.settings import ChannelSettings, NotifySettings
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.duties.notifier import CannotSend, Channel, Messenger
from gigafactory.domain.errors import Invalid
from gigafactory.domain.tenancy.notification import TRIES_MAX
from gigafactory.notify.apprise import AppriseMessenger
from gigafactory.wiring.notify import open_messenger
from tests.services.aq import Shell
from tests.services.receivers import Receiver, a_mailbox, a_receiver
from tests.support.api_server import Server, Worker, a_coordinator, a_server, a_worker
from tests.support.factory.local_fleet import Clock

AT_ONCE = timedelta()
HOUR = timedelta(hours=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as made:
        yield made


class Desk:
    """A coordinator with a submitting person and a worker."""

    def __init__(
        self, server: Server, clock: Clock, people: httpx.AsyncClient, worker: Worker
    ) -> None:
        self.coordinator = server.coordinator
        self.clock = clock
        self.people = people
        self.worker = worker

    def listen(
        self, messenger: Messenger, *, quiet: timedelta = AT_ONCE, **more: tuple[str, ...]
    ) -> None:
        """Configure one notification channel."""
        channel = Channel(name="ops", quiet=quiet, **more)
        self.coordinator.notify_through(messenger, [channel])

    async def notify_once(self, coordinator: Coordinator | None = None) -> None:
        """Run one step of a coordinator's notifier."""
        notifier = (coordinator or self.coordinator).notifier
        assert notifier is not None
        await notifier.step()

    async def reviewable(self, name: str) -> str:
        """Create a job that waits for a review, and return its id."""
        asked = {"manifest": {"name": name, "reviewPolicy": "manual"}, "body": f"# Do {name}"}
        job_id: str = (await self.people.post("/jobs", json=asked)).json()["id"]
        grant = await self.worker.granted()
        await self.worker.report(grant, stage="building")
        await self.worker.report(
            grant, stage="review", checkpoint={"branch": "b", "commit": commit_of(name)}
        )
        return job_id


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock = Clock()
    async with (
        a_server(tmp_path, clock=clock) as server,
        server.client() as people,
        a_worker(server, "mac-1") as worker,
    ):
        yield Desk(server, clock, people, worker)


def commit_of(name: str) -> str:
    return name.encode().hex()


def approval(name: str) -> dict[str, str]:
    return {"decision": "approve", "commit": commit_of(name)}


def through(*receivers: Receiver) -> AppriseMessenger:
    return AppriseMessenger({"ops": [each.url for each in receivers]}, local=True)


async def test_each_attention_item_is_notified_once(desk: Desk, receiver: Receiver) -> None:
    desk.listen(through(receiver))
    job_id = await desk.reviewable("one")
    await desk.notify_once()
    await desk.notify_once()
    assert receiver.titles == [f"notes: Do one ({job_id}) waits for a review"]
    await desk.people.post("/jobs/one/review", json=approval("one"))
    await desk.notify_once()
    await desk.people.post("/jobs/one/actions/reject", json={"reason": "after all not"})
    await desk.notify_once()
    await desk.notify_once()
    assert [title.rpartition(") ")[2] for title in receiver.titles] == [
        "waits for a review",
        "is ready to ship",
        "has failed",
    ]
    assert "after all not" in receiver.heard[-1]["message"]


async def test_an_unroutable_job_and_a_lost_factory_are_notified(
    desk: Desk, receiver: Receiver
) -> None:
    desk.listen(through(receiver))
    manifest = {"name": "odd", "capabilities": ["has:nothing-like-it"]}
    await desk.people.post("/jobs", json={"manifest": manifest, "body": "# Odd"})
    await desk.notify_once()
    assert receiver.titles[0].endswith("can be run by no factory")
    desk.clock.advance(timedelta(minutes=5))
    await desk.notify_once()
    await desk.notify_once()
    assert receiver.titles[1:] == ["factory mac-1 is offline"]


async def test_budget_is_notified_at_80_95_and_100_percent(desk: Desk, receiver: Receiver) -> None:
    desk.listen(through(receiver), kinds=("budget",))
    await desk.people.put("/budgets/notes", json={"ceilingUsd": "10"})
    await desk.people.post("/jobs", json={"manifest": {"name": "costly"}, "body": "# Costly"})
    grant = await desk.worker.granted()
    for usd in ("7", "8", "9", "9.6", "9.7", "10"):
        await desk.worker.report(grant, usage={"costUsd": usd})
        desk.clock.advance(timedelta(days=2) if usd == "9" else timedelta(seconds=1))
        await desk.notify_once()
    heard = [result["message"].split("\n")[1].strip() for result in receiver.heard]
    assert [line.partition(" %")[0] for line in heard] == ["80", "96", "100"]
    assert receiver.titles[0] == "notes: the budget of notes needs a look"


async def test_job_waiting_beyond_its_target_is_notified(desk: Desk, receiver: Receiver) -> None:
    desk.listen(through(receiver), kinds=("late",))
    await desk.people.put("/products/notes", json={"targetWait": {"critical": "5m"}})
    asked = {"name": "hasty", "priority": "critical", "lock": "one"}
    await desk.people.post("/jobs", json={"manifest": asked, "body": "# Hasty"})
    await desk.worker.granted()
    await desk.people.post("/jobs", json={"manifest": asked | {"name": "next"}, "body": "# Next"})
    await desk.notify_once()
    assert receiver.titles == []
    desk.clock.advance(timedelta(minutes=6))
    await desk.notify_once()
    await desk.notify_once()
    (title,) = receiver.titles
    assert title.endswith("waits longer than it should")
    why = (await desk.people.get("/jobs/next/explain")).json()
    assert "late" in {reason["code"] for reason in why["reasons"]}
    assert (await desk.people.get("/jobs/next")).json()["flags"] == ["late"]


async def test_two_coordinators_notify_each_item_once(
    desk: Desk, receiver: Receiver, tmp_path: Path
) -> None:
    other = a_coordinator(tmp_path / "other", store=desk.coordinator.store, clock=desk.clock)
    await other.load()
    messenger = through(receiver)
    desk.listen(messenger)
    other.notify_through(messenger, [Channel(name="ops", quiet=AT_ONCE)])
    for name in ("one", "two", "three"):
        await desk.reviewable(name)
        await asyncio.gather(*(desk.notify_once(each) for each in (None, other, None, other)))
        await desk.notify_once(other)
    said = "".join(result["message"] for result in receiver.heard)
    assert [said.count(f"Do {name} ") for name in ("one", "two", "three")] == [1, 1, 1]


async def test_items_within_the_quiet_period_are_combined(desk: Desk, receiver: Receiver) -> None:
    desk.listen(through(receiver), quiet=timedelta(seconds=30))
    for name in ("one", "two", "three"):
        await desk.reviewable(name)
        await desk.notify_once()
    assert len(receiver.heard) == 1
    desk.clock.advance(timedelta(seconds=31))
    await desk.notify_once()
    assert receiver.titles[1:] == ["2 items need your attention"]
    assert all(f"Do {name} " in receiver.heard[1]["message"] for name in ("two", "three"))


async def test_item_resolved_before_its_notification_is_not_sent(
    desk: Desk, receiver: Receiver
) -> None:
    desk.listen(through(receiver), quiet=timedelta(seconds=30), kinds=("review",))
    await desk.reviewable("one")
    await desk.notify_once()
    await desk.reviewable("two")
    await desk.notify_once()
    await desk.people.post("/jobs/two/review", json=approval("two"))
    desk.clock.advance(timedelta(seconds=31))
    await desk.notify_once()
    assert len(receiver.heard) == 1


async def test_failed_message_is_retried_a_few_times(desk: Desk, receiver: Receiver) -> None:
    desk.listen(through(receiver), kinds=("review",))
    receiver.status = 500
    job_id = await desk.reviewable("one")
    await desk.notify_once()
    await desk.notify_once()
    assert len(receiver.heard) == 1, "not before its back-off"
    receiver.status = 200
    desk.clock.advance(timedelta(minutes=1))
    await desk.notify_once()
    await desk.notify_once()
    assert len(receiver.heard) == 2
    receiver.status = 500
    await desk.reviewable("two")
    for _ in range(TRIES_MAX + 3):
        await desk.notify_once()
        desk.clock.advance(HOUR)
    assert len(receiver.heard) == 2 + TRIES_MAX
    assert (await desk.people.get(f"/jobs/{job_id}")).json()["stage"] == "review"


class Dies:
    """A messenger whose process dies while it sends."""

    def __init__(self) -> None:
        self.tries = 0

    async def send(self, channel: str, title: str, body: str) -> None:
        """Raise CancelledError, like the end of the process."""
        del channel, title, body
        self.tries += 1
        raise asyncio.CancelledError


async def test_coordinator_that_dies_while_sending_sends_at_most_once(desk: Desk) -> None:
    messenger = Dies()
    desk.listen(messenger)
    await desk.reviewable("one")
    with pytest.raises(asyncio.CancelledError):
        await desk.notify_once()
    desk.clock.advance(timedelta(minutes=10))
    desk.listen(messenger, kinds=("review",))
    await desk.notify_once()
    assert messenger.tries == 1


async def test_channel_receives_only_new_items_of_its_products(
    desk: Desk, receiver: Receiver
) -> None:
    await desk.reviewable("one")
    desk.listen(through(receiver), products=("other",))
    await desk.notify_once()
    desk.clock.advance(timedelta(minutes=10))
    await desk.notify_once()
    assert receiver.heard == []
    desk.listen(through(receiver), products=("notes",))
    desk.clock.advance(timedelta(days=2))
    await desk.notify_once()
    assert receiver.heard == [], "what has waited for days is no news to a new channel"


async def test_untrusted_text_is_one_short_line_in_a_message(
    desk: Desk, receiver: Receiver
) -> None:
    desk.listen(through(receiver))
    body = {"manifest": {"title": "x" * 250}, "body": "y"}
    asked = await desk.people.post("/jobs", json=body)
    await desk.people.post(f"/jobs/{asked.json()['id']}/actions/cancel", json={})
    await desk.reviewable("one")
    await desk.people.post(
        "/jobs/one/actions/reject", json={"reason": f"a\nb\u202e{'z' * 500} @everyone"}
    )
    await desk.notify_once()
    [result] = receiver.heard
    assert "\u202e" not in result["message"]
    assert "  a b" + "z" * 100 in result["message"]
    assert max(map(len, result["message"].split("\n"))) <= 202


async def test_notification_is_sent_by_mail(desk: Desk) -> None:
    async with a_mailbox() as box:
        url = f"mailto://127.0.0.1:{box.port}?from=aq@example.org&to=ann@example.org&mode=insecure"
        desk.listen(AppriseMessenger({"ops": [url]}, local=True))
        await desk.reviewable("one")
        await desk.notify_once()
        [letter] = box.letters
    assert "waits for a review" in letter


async def test_invalid_channel_url_is_rejected_without_revealing_it(
    tmp_path: Path,
) -> None:
    def opened(environ: dict[str, str], **channel: object) -> str:
        settings = NotifySettings(channels={"ops": ChannelSettings(**channel)})  # type: ignore[arg-type]
        with pytest.raises(Invalid) as refused:
            open_messenger(settings, environ)
        return str(refused.value)

    assert "the variable OPS_URL is not set" in opened({}, url_env="OPS_URL")
    result = opened({"OPS_URL": "nonsense://secret-token"}, url_env="OPS_URL")
    assert "notify.channels.ops" in result
    assert "secret" not in result
    assert "cannot be read" in opened({}, url_file=tmp_path / "none")
    (tmp_path / "empty").write_text("# nothing yet\n")
    assert "contains no URL" in opened({}, url_file=tmp_path / "empty")


async def test_notify_command_lists_and_tests_channels(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "urls").write_text(f"# ops\n{receiver.url}\n")
    (tmp_path / "aq.toml").write_text(
        "[notify]\nlocal = true\n"
        '[notify.channels.ops]\nurl-file = "urls"\n[notify.channels.team]\nurl-env = "TEAM_URL"\n'
    )
    shell = Shell(tmp_path, {"TEAM_URL": receiver.url})
    listed = await asyncio.to_thread(shell.aq, "notify")
    assert "$TEAM_URL" in listed.out, listed.err
    assert receiver.url not in listed.out
    tried = await asyncio.to_thread(shell.aq, "notify", "--test")
    assert (tried.code, tried.out) == (0, "ops: sent\nteam: sent\n"), tried.err
    assert receiver.titles == ["Gigafactory test message"] * 2
    receiver.status = 500
    failed = await asyncio.to_thread(shell.aq, "notify", "--test", "-c", "ops")
    assert (failed.code, failed.out) == (1, "ops: no address of the channel accepted the message\n")
    assert (await asyncio.to_thread(shell.aq, "notify", "--test", "-c", "no")).code == 2
    (tmp_path / "aq.toml").write_text("[notify.channels.ops]\nkinds = []\n")
    assert "one of url-env and url-file" in (await asyncio.to_thread(shell.aq, "notify")).err


@pytest.mark.parametrize(
    "url",
    [
        *("json://127.0.0.1:9/", "json://localhost:9/", "jsons://[::1]:9/", "ntfy://127.0.0.1/x"),
        *("xml://169.254.169.254/latest", "form://[64:ff9b::7f00:1]/"),
        "mailto://127.0.0.1?from=aq@example.org&to=ann@example.org",
    ],
)
async def test_no_message_goes_to_this_machine_unless_a_setting_allows_it(url: str) -> None:
    with pytest.raises(CannotSend, match="this machine or a metadata service"):
        await AppriseMessenger({"ops": [url]}).send("ops", "title", "body")


async def test_redirects_of_a_receiver_are_not_followed(receiver: Receiver) -> None:
    with a_receiver() as other:
        receiver.status, receiver.location = 307, f"http://127.0.0.1:{other.port}/"
        with pytest.raises(CannotSend):
            await through(receiver).send("ops", "title", "body")
        assert len(receiver.heard) == 1
        assert other.heard == []
