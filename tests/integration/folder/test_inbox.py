"""A factory of the fleet with a local inbox: both run concurrently, and each without the other."""

import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gigafactory.factory.agent.agent import ExitCondition
from tests.services.aq import Shell
from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import a_process_harness
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.folder_queue import FolderHarness
from tests.support.polling import until


def waits_for(sign: Path) -> str:
    """Return a script that waits until a file exists."""
    return f"until [ -e {sign} ]; do sleep 0.05; done"


def a_place(tmp_path: Path) -> FolderHarness:
    return FolderHarness(tmp_path / "local")


async def comes(place: FolderHarness, name: str, stage: str = "testing") -> None:
    """Wait until a local job reaches a stage."""

    def there() -> bool:
        known = {kept.key: kept.job for kept in place.queue.look().values()}
        return name in known and known[name].stage == stage

    await until(there)


async def the_factory(harness: FactoryHarness) -> dict[str, Any]:
    result: dict[str, Any] = (await harness.api.get("/factories/mac-1")).json()
    return result


async def test_factory_runs_inbox_jobs_and_fleet_jobs(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with a_local_harness(tmp_path) as harness, harness.factory(inbox=place.board.root):
        place.drop_repo_job("local", "echo here > here.txt", verify="true", ship_policy="auto")
        job_id = await harness.submit("echo hello > hello.txt")
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
        await comes(place, "local", "shipped")
        assert place.remote.text("main", "here.txt") == "here"
        assert place.columns_of("local") == ["shipped"]
        assert {run.factory_id for run in place.record("local").runs} == {"mac-1"}


async def test_inbox_and_fleet_share_one_pool_of_slots(tmp_path: Path) -> None:
    place, sign, trace = a_place(tmp_path), tmp_path / "sign", tmp_path / "trace"
    async with (
        a_local_harness(tmp_path) as harness,
        harness.factory(slots=1, inbox=place.board.root),
    ):
        place.drop("local", f"echo local >> {trace}; {waits_for(sign)}", verify="true")
        await until(trace.exists)

        async def no_slots() -> bool:
            return bool((await the_factory(harness))["slots"] == 0)

        await until(no_slots)
        fleet = await harness.submit(f"echo fleet >> {trace}", repo=None, ship="none")
        place.drop("second", f"echo second >> {trace}", verify="true")
        sign.touch()
        await comes(place, "local")
        assert (await harness.wait_until_idle(fleet))["stage"] == "testing"
        await comes(place, "second")
        story = await harness.event_types(fleet)
        assert story.count("assigned") == 1
        assert trace.read_text().split() == ["local", "fleet", "second"]

        async def one_slot() -> bool:
            return bool((await the_factory(harness))["slots"] == 1)

        await until(one_slot)


async def test_neither_inbox_nor_fleet_starves_the_other(tmp_path: Path) -> None:
    place, trace = a_place(tmp_path), tmp_path / "trace"
    async with a_local_harness(tmp_path) as harness:
        options = {"repo": None, "ship": "none"}
        ids = [await harness.submit(f"echo fleet >> {trace}", **options) for _ in range(4)]
        for number in range(4):
            place.drop(f"local-{number}", f"echo local >> {trace}", verify="true")
        async with harness.factory(slots=1, inbox=place.board.root):
            for job_id in ids:
                await harness.wait_until_idle(job_id)
            for number in range(4):
                await comes(place, f"local-{number}")
    order = trace.read_text().split()
    assert sorted(order) == ["fleet"] * 4 + ["local"] * 4
    for side in ("fleet", "local"):
        assert side in order[:3], order


async def test_disconnected_factory_continues_with_the_inbox_and_reports_later(
    forks: ForkServer, tmp_path: Path
) -> None:
    place, sign = a_place(tmp_path), tmp_path / "sign"
    async with (
        a_process_harness(forks, tmp_path, settings={}) as harness,
        harness.factory(slots=2, inbox=place.board.root),
    ):
        submitted = await harness.submit(f"echo begun; {waits_for(sign)}", repo=None, ship="none")
        await harness.wait_for_log(submitted, "begun\n")
        async with harness.coordinator.killed():
            sign.touch()
            for name in ("one", "two", "three"):
                place.drop_repo_job(name, f"echo x > {name}.txt", verify="true")
            for name in ("one", "two", "three"):
                await comes(place, name)
            place.act("one", "ship")
            await comes(place, "one", "shipped")
        assert (await harness.wait_until_idle(submitted))["stage"] == "testing"
        assert [run["result"] for run in await harness.runs(submitted)] == ["ok"]
        later = await harness.submit("echo hello > hello.txt")
        assert (await harness.wait_until_idle(later))["stage"] == "testing"
        assert (await the_factory(harness))["slots"] == 2
        assert place.remote.text("main", "one.txt") == "x"


async def test_factory_that_cannot_join_yet_starts_with_its_inbox(
    forks: ForkServer, tmp_path: Path
) -> None:
    place = a_place(tmp_path)
    async with a_process_harness(forks, tmp_path, settings={}) as harness:
        await harness.token("mac-1")
        waiting = await harness.submit("echo hello > hello.txt")
        async with AsyncExitStack() as stack:
            async with harness.coordinator.killed():
                await stack.enter_async_context(harness.factory(inbox=place.board.root))
                place.drop("local", "true", verify="true")
                await comes(place, "local")
            assert (await harness.wait_until_idle(waiting))["stage"] == "testing"
            assert (await the_factory(harness))["online"]


async def test_signal_ends_a_factory_that_never_joined(forks: ForkServer, tmp_path: Path) -> None:
    place = a_place(tmp_path)
    async with a_process_harness(forks, tmp_path, settings={}) as harness:
        data = await harness.enroll("mac-1")
        settings = {"AQ_DATA": str(data), "AQ_FACTORY_SANDBOX": "none"}
        async with harness.coordinator.killed():
            shell = Shell(place.folder, settings)
            with shell.start("factory", "run", "--inbox", "queue") as process:
                place.drop("local", "true", verify="true")
                await comes(place, "local")
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=30)
                assert process.returncode == 0
            assert shell.aq("factory", "run").code == 5, "without an inbox there is nothing to do"


async def test_folder_runner_joins_the_fleet_when_configured(
    forks: ForkServer, tmp_path: Path
) -> None:
    place = a_place(tmp_path)
    async with a_process_harness(forks, tmp_path, settings={}) as harness:
        data = await harness.enroll("mac-1")
        settings = {"AQ_DATA": str(data), "AQ_FACTORY_SANDBOX": "none", "AQ_FLEET": "1"}
        shell = Shell(place.folder, settings | {"AQ_FLEET_REPO_BASE": str(harness.folder)})
        place.drop("local", "true", verify="true")
        distant = await harness.submit("echo hello > hello.txt")
        with shell.start("run", "queue") as process:
            await comes(place, "local")
            assert (await harness.wait_until_idle(distant))["stage"] == "testing"
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            assert process.returncode == 0


async def test_second_drain_releases_inbox_and_fleet_jobs(tmp_path: Path) -> None:
    place, sign = a_place(tmp_path), tmp_path / "sign"
    async with (
        a_local_harness(tmp_path) as harness,
        harness.factory(slots=2, inbox=place.board.root) as agent,
    ):
        place.drop_repo_job(
            "local", f"echo half > half; echo begun; {waits_for(sign)}", verify="true"
        )
        fleet = await harness.submit(f"echo begun; {waits_for(sign)}")
        await harness.wait_for_log(fleet, "begun\n")
        await until(lambda: bool(place.queue.look()) and "begun\n" in place.log("local"))
        agent.drain()
        place.drop("late", "true", verify="true")
        agent.drain()
        await comes(place, "local", "queued")
        await harness.wait_until_idle(fleet, at="queued")
        assert place.job("local").result == "released"
        assert place.job("local").checkpoint is not None
        assert place.columns_of("late") == ["inbox"]


async def test_the_job_limit_also_counts_jobs_from_the_inbox(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    for name in ("one", "two", "three"):
        place.drop(name, "true", verify="true")
    async with (
        a_local_harness(tmp_path) as harness,
        harness.factory(ends=ExitCondition(jobs_max=2), inbox=place.board.root) as agent,
    ):
        await until(lambda: agent.job_limit_reached)
        await comes(place, "one")
        await comes(place, "two")
    assert place.job("three").stage == "queued"
