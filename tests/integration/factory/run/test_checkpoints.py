"""Checkpoints during a run: a failed save is repeated later, and no work is lost."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import DROP_CONNECTION, REJECT_PUSH
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until

OFTEN_S = 0.05


class Watched:
    """A job whose steps wait for files, on a factory that checkpoints often."""

    def __init__(self, harness: FactoryHarness) -> None:
        self.harness = harness
        self.job_id = ""

    @property
    def branch(self) -> str:
        return f"aq/wip/{self.job_id}/1"

    def sign(self, name: str) -> Path:
        return self.harness.folder / name

    async def begins(self, *steps: str) -> None:
        """Submit a job with these steps; each step but the first waits for its file."""
        body = "\n".join(
            f"until [ -e {self.sign(str(number))} ]; do sleep 0.02; done\n{step}"
            for number, step in enumerate(steps)
        )
        self.sign("0").touch()
        self.job_id = await self.harness.submit(body)

    def goes_on(self, step: int) -> None:
        self.sign(str(step)).touch()

    def log(self) -> str:
        """Return the logs on the factory's disk."""
        return "".join(each.read_text() for each in self.harness.data_dir().logs.glob("*.log"))

    async def tells(self, word: str, *, times: int = 1) -> None:
        await until(lambda: self.log().count(word) >= times)

    async def has_saved(self, name: str) -> None:
        """Wait until the work-in-progress branch on the remote contains a file."""
        remote = self.harness.remote

        def there() -> bool:
            return remote.commit_of(self.branch) is not None and name in remote.files(self.branch)

        await until(there)

    async def ends_well(self) -> str:
        """Wait until the job succeeds in its only run and return the result commit."""
        job = await self.harness.wait_until_idle(self.job_id)
        assert (job["stage"], job["result"]) == ("testing", "ok"), job["reason"]
        assert len(await self.harness.runs(self.job_id)) == 1
        commit: str = job["checkpoint"]["commit"]
        return commit


@pytest_asyncio.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with (
        a_local_harness(tmp_path, served=True) as harness,
        harness.factory(checkpoint_every=OFTEN_S),
    ):
        yield Watched(harness)


async def test_checkpoints_reach_the_remote_while_the_run_continues(watched: Watched) -> None:
    await watched.begins("echo one > one", "echo two > two", "true")
    for step, name in enumerate(("one", "two"), start=1):
        await watched.has_saved(name)
        checkpoint = (await watched.harness.job(watched.job_id))["checkpoint"]
        assert checkpoint["branch"] == watched.branch
        watched.goes_on(step)
    await watched.ends_well()


@pytest.mark.parametrize(
    ("answer", "word"),
    [(DROP_CONNECTION, "cannot be reached"), (REJECT_PUSH, "only on Sundays")],
    ids=["away", "no"],
)
async def test_failed_checkpoint_is_logged_and_retried(
    watched: Watched, answer: str, word: str
) -> None:
    bad = watched.sign("bad")
    watched.harness.remote.on_push(answer, to="refs/heads/aq/wip/*", when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "echo two > two")
    await watched.tells("checkpoint: not saved; retrying in 0.05 s: ", times=2)
    assert word in watched.log()
    assert (await watched.harness.job(watched.job_id))["stage"] == "building", "the run goes on"
    bad.unlink()
    await watched.has_saved("one")
    await watched.tells("checkpoint: saved again")
    watched.goes_on(1)
    commit = await watched.ends_well()
    assert watched.harness.remote.files(commit) == ["README.md", "one", "two"]


async def test_checkpoint_with_a_lost_response_is_continued(watched: Watched) -> None:
    bad = watched.sign("bad")
    watched.harness.remote.vanish_after_push(when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "echo two > two", "true")
    await watched.tells("checkpoint: not saved", times=2)
    watched.harness.remote.come_back()
    watched.goes_on(1)
    await watched.has_saved("two")
    assert watched.harness.remote.log(watched.branch).count("Work in progress") == 2, (
        "both are kept"
    )
    watched.goes_on(2)
    await watched.ends_well()


async def test_hanging_checkpoint_does_not_block_the_result(watched: Watched) -> None:
    bad, hangs = watched.sign("bad"), watched.sign("hangs")
    answer = f"touch {hangs}; sleep 600"
    watched.harness.remote.on_push(answer, to="refs/heads/aq/wip/*", when=f"[ -e {bad} ]")
    waits = f"until [ -e {hangs} ]; do sleep 0.02; done"
    await watched.begins(f"touch {bad}; echo one > one; {waits}; rm {bad}")
    assert watched.harness.remote.files(await watched.ends_well()) == ["README.md", "one"]


async def test_result_is_pushed_after_a_checkpoint_with_a_lost_response(
    watched: Watched,
) -> None:
    bad = watched.sign("bad")
    watched.harness.remote.vanish_after_push(when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "true")
    await watched.tells("checkpoint: not saved")
    watched.goes_on(1)
    watched.harness.remote.come_back()
    assert watched.harness.remote.files(await watched.ends_well()) == ["README.md", "one"]
