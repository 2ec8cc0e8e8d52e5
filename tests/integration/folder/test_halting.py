"""A halted folder: no job starts, running jobs continue or are released, and it can be resumed."""

from pathlib import Path

from gigafactory.domain.job.job import Stage
from gigafactory.folder.queue.halt import halt, halted, lift
from tests.support.folder_queue import FolderHarness
from tests.support.polling import until


async def test_halted_folder_starts_no_job_until_it_is_resumed(place: FolderHarness) -> None:
    place.drop("greet", "true")
    halt(place.queue, "user:ada", "bad release")
    assert (await place.run()).taken == ()
    assert place.job("greet").stage is Stage.QUEUED
    found = halted(place.board)
    assert found is not None
    assert (found.by, found.reason) == ("user:ada", "bad release")
    lift(place.queue)
    lift(place.queue)
    assert halted(place.board) is None
    assert [kept.job.name for kept in (await place.run()).taken] == ["greet"]


async def test_halt_with_stop_releases_running_jobs_and_starts_no_more(
    place: FolderHarness,
) -> None:
    place.drop("first", "sleep 60")
    place.drop("second", "true", priority="low")
    with place.shell.start("run") as running:
        await until(lambda: place.columns_of("first") == ["building"] and bool(place.log("first")))
        await until(lambda: place.columns_of("second") == ["review"])
        assert place.shell.aq("halt", "--stop", "-m", "bad release").code == 0
        place.drop("third", "true")
        await until(lambda: place.columns_of("first") == ["inbox"])
        await until(lambda: place.job("first").lease is None)
        # The record shows that the runner has read the inbox and could have started the job.
        await until(place.board.record("third").exists)
        assert running.poll() is None
    assert place.job("third").stage is Stage.QUEUED


def test_halt_command_is_shown_in_the_status(place: FolderHarness, tmp_path: Path) -> None:
    shell = place.shell
    said = shell.aq("halt", "-m", "bad release")
    assert (said.code, "is halted" in said.out) == (0, True)
    assert "halted by user:" in shell.aq("status").err
    data = shell.aq("status", "--json").json()
    assert isinstance(data, dict)
    assert data["halted"]["reason"] == "bad release"
    assert shell.aq("resume", "--json").json() == {"halted": False}
    assert "halted" not in shell.aq("status").err
    assert shell.aq("halt", "--folder", str(tmp_path / "nowhere")).code == 3
