"""`aq gc` on a folder, whose records show the finished jobs."""

import asyncio

from gigafactory.folder.queue.store import leases_of
from tests.support.folder_queue import FolderHarness
from tests.support.polling import until


def ours(place: FolderHarness) -> list[str]:
    return [name for name in place.remote.branches() if name.startswith("aq/")]


async def test_gc_removes_branches_of_shipped_jobs_only(place: FolderHarness) -> None:
    place.drop_repo_job("done", "echo a > a", verify="true")
    place.drop_repo_job("waits", "echo b > b", verify="true")
    place.drop_repo_job("fails", "echo c > c; exit 1")
    await place.run()
    place.act("done", "ship")
    await place.run()
    assert place.job("done").stage == "shipped"
    done = place.job("done").id
    before = ours(place)
    shell = place.shell
    dry = await asyncio.to_thread(shell.aq, "gc", "--dry-run")
    assert dry.out.endswith("would have removed 2 branches\n"), dry.err
    assert ours(place) == before
    result = await asyncio.to_thread(shell.aq, "gc", "--folder", ".")
    assert result.code == 0, result.err
    assert result.out.splitlines()[-1] == "removed 2 branches"
    assert ours(place) == [name for name in before if done not in name]
    again = await asyncio.to_thread(shell.aq, "gc")
    assert (again.out, again.err) == ("", "nothing to remove\n")


async def test_gc_leaves_a_running_job_alone(place: FolderHarness) -> None:
    place.drop_repo_job("busy", "echo x > x; echo under way; sleep 600")
    runner = await place.runner()
    working = asyncio.create_task(runner.run())
    try:
        await until(lambda: bool(runner.running) and "under way" in place.log("busy"))
        result = await asyncio.to_thread(place.shell.aq, "gc")
        assert result.err == "nothing to remove\n", result
        assert place.board.data_dir.worktree(place.job("busy").id).exists()
        assert leases_of(place.job("busy"))
    finally:
        runner.drain()
        runner.drain()
        await working


def test_gc_of_a_folder_without_a_queue_is_rejected(place: FolderHarness) -> None:
    ran = place.shell.aq("gc", "--folder", str(place.folder))
    assert ran.code == 3


async def test_gc_of_an_unused_folder_removes_nothing(place: FolderHarness) -> None:
    result = await asyncio.to_thread(place.shell.aq, "gc", "--json")
    assert result.json() == {"dryRun": False, "swept": [], "notes": [], "bytes": 0}
