"""Work is saved while a run goes on; what cannot be saved now is saved later: none is lost."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import AWAY, NO
from tests.support.factory.local_fleet import Yard, a_yard
from tests.support.polling import until

OFTEN_S = 0.05


class Watched:
    """A job that does as it is told by files, on a factory that saves its work often."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.job_id = ""

    @property
    def branch(self) -> str:
        return f"aq/wip/{self.job_id}/1"

    def sign(self, name: str) -> Path:
        return self.yard.folder / name

    async def begins(self, *steps: str) -> None:
        """Hand in a job that does one step after the other, each but the first when it may."""
        body = "\n".join(
            f"until [ -e {self.sign(str(number))} ]; do sleep 0.02; done\n{step}"
            for number, step in enumerate(steps)
        )
        self.sign("0").touch()
        self.job_id = await self.yard.submit(body)

    def goes_on(self, step: int) -> None:
        self.sign(str(step)).touch()

    def log(self) -> str:
        """What is in the log at its source."""
        return "".join(each.read_text() for each in self.yard.data_dir().logs.glob("*.log"))

    async def tells(self, word: str, *, times: int = 1) -> None:
        await until(lambda: self.log().count(word) >= times)

    async def has_saved(self, name: str) -> None:
        """Come back when a file is on the remote, in the work in progress."""
        remote = self.yard.remote

        def there() -> bool:
            return remote.commit_of(self.branch) is not None and name in remote.files(self.branch)

        await until(there)

    async def ends_well(self) -> str:
        """The commit of the result of the one run that it took."""
        job = await self.yard.rests(self.job_id)
        assert (job["stage"], job["result"]) == ("testing", "ok"), job["reason"]
        assert len(await self.yard.runs(self.job_id)) == 1
        commit: str = job["checkpoint"]["commit"]
        return commit


@pytest_asyncio.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with a_yard(tmp_path, served=True) as yard, yard.factory(checkpoint_every=OFTEN_S):
        yield Watched(yard)


async def test_work_is_on_the_remote_long_before_a_run_ends(watched: Watched) -> None:
    await watched.begins("echo one > one", "echo two > two", "true")
    for step, name in enumerate(("one", "two"), start=1):
        await watched.has_saved(name)
        checkpoint = (await watched.yard.job(watched.job_id))["checkpoint"]
        assert checkpoint["branch"] == watched.branch
        watched.goes_on(step)
    await watched.ends_well()


@pytest.mark.parametrize(
    ("answer", "word"), [(AWAY, "cannot be reached"), (NO, "only on Sundays")], ids=["away", "no"]
)
async def test_a_checkpoint_that_fails_is_told_and_made_up_for(
    watched: Watched, answer: str, word: str
) -> None:
    bad = watched.sign("bad")
    watched.yard.remote.answers(answer, to="refs/heads/aq/wip/*", when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "echo two > two")
    await watched.tells("checkpoint: not saved; retrying in 0.05 s: ", times=2)
    assert word in watched.log()
    assert (await watched.yard.job(watched.job_id))["stage"] == "building", "the run goes on"
    bad.unlink()
    await watched.has_saved("one")
    await watched.tells("checkpoint: saved again")
    watched.goes_on(1)
    commit = await watched.ends_well()
    assert watched.yard.remote.files(commit) == ["README.md", "one", "two"]


async def test_a_checkpoint_whose_answer_was_lost_is_gone_on_from(watched: Watched) -> None:
    bad = watched.sign("bad")
    watched.yard.remote.vanishes(when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "echo two > two", "true")
    await watched.tells("checkpoint: not saved", times=2)
    watched.yard.remote.comes_back()
    watched.goes_on(1)
    await watched.has_saved("two")
    assert watched.yard.remote.log(watched.branch).count("Work in progress") == 2, "both are kept"
    watched.goes_on(2)
    await watched.ends_well()


async def test_a_checkpoint_that_hangs_keeps_no_result_back(watched: Watched) -> None:
    bad, hangs = watched.sign("bad"), watched.sign("hangs")
    answer = f"touch {hangs}; sleep 600"
    watched.yard.remote.answers(answer, to="refs/heads/aq/wip/*", when=f"[ -e {bad} ]")
    waits = f"until [ -e {hangs} ]; do sleep 0.02; done"
    await watched.begins(f"touch {bad}; echo one > one; {waits}; rm {bad}")
    assert watched.yard.remote.files(await watched.ends_well()) == ["README.md", "one"]


async def test_a_result_goes_out_although_the_last_checkpoint_had_no_answer(
    watched: Watched,
) -> None:
    bad = watched.sign("bad")
    watched.yard.remote.vanishes(when=f"[ -e {bad} ]")
    await watched.begins(f"touch {bad}; echo one > one", "true")
    await watched.tells("checkpoint: not saved")
    watched.goes_on(1)
    watched.yard.remote.comes_back()
    assert watched.yard.remote.files(await watched.ends_well()) == ["README.md", "one"]
