"""Artifacts, diffs and logs of folder jobs are stored in the folder."""

from datetime import timedelta

from gigafactory.folder.queue.clean import remove_ended
from tests.support.folder_queue import FolderHarness


async def test_job_artifacts_are_stored_in_the_folder(place: FolderHarness) -> None:
    place.drop(
        "report", "mkdir out; echo one > out/one.txt; touch other", ship="none", artifacts="[out]"
    )
    assert not (await place.run()).failed
    root = place.board.artifacts("report")
    assert (root / "out" / "one.txt").read_text() == "one\n"
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["one.txt"]
    story = place.event_types("report")
    assert story.index("artifact_added") < story.index("review_requested")
    listed = place.shell.aq("artifacts", "report")
    assert str(root / "out" / "one.txt") in listed.out
    assert place.shell.aq("artifacts", "report", "--json").json() == {
        "artifacts": [{"name": "out/one.txt", "size": 4, "file": str(root / "out" / "one.txt")}]
    }
    assert place.shell.aq("artifacts", "report", "--get", "out/one.txt").code == 2


async def test_failed_job_keeps_its_artifacts_and_a_later_run_replaces_them(
    place: FolderHarness,
) -> None:
    place.drop(
        "report", "date +%N > report.txt; exit 1", retry="{max: 1, backoff: 0s}", artifacts="[r*]"
    )
    await place.run()
    assert place.event_types("report").count("artifact_added") == 2
    (file,) = place.board.artifacts("report").iterdir()
    assert file.name == "report.txt"


async def test_cleanup_removes_artifacts_with_their_job(place: FolderHarness) -> None:
    place.drop("report", "echo one > one; exit 1", artifacts="[one]")
    await place.run()
    assert place.board.artifacts("report").exists()
    remove_ended(place.queue, timedelta(0), failed=True)
    assert not place.board.artifacts("report").exists()


async def test_diff_command_shows_the_changes_of_a_folder_job(place: FolderHarness) -> None:
    place.drop_repo_job("page", "echo line >> page.txt")
    place.drop("idle", "true", ship="none")
    await place.run()
    ran = place.shell.aq("diff", "page")
    assert ran.code == 0, ran.err
    assert "+line\n" in ran.out
    assert f"commit {place.job('page').head}" in ran.err
    assert "artifact_added" not in place.event_types("page")
    none = place.shell.aq("diff", "idle")
    assert (none.code, "none of its runs has changed a repo" in none.err) == (3, True)
    place.act("page", "reject", reason="no")
    remove_ended(place.queue, timedelta(0), failed=True)
    assert not place.board.diff("page").exists()


async def test_log_is_sanitized_in_a_pipe_unless_raw(
    place: FolderHarness,
) -> None:
    place.drop("noisy", "printf 'a\\033[2Jb\\033]0;title\\007c\\n'", ship="none")
    await place.run()
    assert "\nabc\n" in place.shell.aq("logs", "noisy").out
    assert "a\x1b[2Jb\x1b]0;title\x07c\n" in place.shell.aq("logs", "noisy", "--raw").out
