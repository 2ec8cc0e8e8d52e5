"""The coordinator dies while a factory works: no run is lost, and each report counts once."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gigafactory.factory.reporting.outbox import Outbox
from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import FarYard, a_far_yard
from tests.support.polling import until

WHOLE_STORY = [
    *("submitted", "offered", "assigned", "started", "checkpoint"),
    *("diff_added", "checkpoint", "usage", "verify_passed", "diff", "tested"),
]


def without_files(story: Sequence[str]) -> Iterator[str]:
    return (event for event in story if event != "diff_added")


def waits_for(sign: Path) -> str:
    """A script that goes on when a file is there."""
    return f"until [ -e {sign} ]; do sleep 0.05; done"


async def test_a_run_goes_on_without_its_coordinator_and_tells_it_afterwards(
    forks: ForkServer, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    async with (
        a_far_yard(forks, tmp_path, settings={}) as yard,
        yard.factory(seats={"command": 2}) as agent,
    ):
        plain = await yard.submit(f"echo plain; {waits_for(sign)}", repo=None, ship="none")
        pushed = await yard.submit(f"echo hello > hello.txt; echo pushed; {waits_for(sign)}")
        await yard.prints(plain, "plain\n")
        await yard.prints(pushed, "pushed\n")
        async with yard.lives.dead():
            sign.touch()
            outbox = Outbox(yard.data_dir().outbox)
            await until(lambda: any(outbox.read(place).last for place in outbox.pending()))
            assert pushed in agent.running_jobs, "nothing is pushed without the coordinator's word"
        assert (await yard.rests(plain))["stage"] == "testing"
        assert (await yard.rests(pushed))["stage"] == "testing"
        for job_id in (plain, pushed):
            assert [run["result"] for run in await yard.runs(job_id)] == ["ok"]
            log = await yard.log(job_id)
            assert log.endswith("aq: ended: ok\n"), "what was said meanwhile came later"
            assert log == yard.data_dir().log_file(f"{job_id}.1").read_text()
        assert await yard.story(pushed) == WHOLE_STORY
        assert outbox.pending() == []


@asynccontextmanager
async def raised_again(yard: FarYard) -> AsyncIterator[None]:
    """While the block lasts, a coordinator that dies is started again."""

    async def watch() -> None:
        while True:
            await yard.lives.after(yard.lives.life)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


REPORTS = {"begun": 1, "saved": 2, "ended": 3}


@pytest.mark.parametrize("told", REPORTS)
@pytest.mark.parametrize("moment", ["asked", "answered"])
async def test_a_report_whose_answer_was_lost_counts_once(
    forks: ForkServer, tmp_path: Path, moment: str, told: str
) -> None:
    doom = f"{moment}:report:{REPORTS[told]}"
    async with (
        a_far_yard(forks, tmp_path, settings={}, dooms=[doom]) as yard,
        yard.factory(),
        raised_again(yard),
    ):
        first = yard.lives.life
        job_id = await yard.submit("echo hello > hello.txt")
        await until(lambda: yard.lives.life is not first)
        assert (await yard.rests(job_id))["stage"] == "testing"
        assert [run["result"] for run in await yard.runs(job_id)] == ["ok"]
        story = await yard.story(job_id)
        # Files do not wait in line: the diff may be there before a report that is sent again.
        assert [*without_files(story)] == [*without_files(WHOLE_STORY)]
        assert story.count("diff_added") == 1
        assert len(yard.moves(f"aq/job/{job_id}")) == 1
