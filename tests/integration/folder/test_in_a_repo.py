"""A queue inside a git repo: people can commit it, and no temporary file is in their way."""

from tests.support.factory.git_repo import plain_git
from tests.support.folder_queue import FolderHarness


def changed(place: FolderHarness) -> set[str]:
    """Return the new and changed files that git reports."""
    result = plain_git(place.board.root, "status", "--porcelain", "--untracked-files=all")
    return {line[2:].strip() for line in result.splitlines()}


def commit(place: FolderHarness) -> None:
    plain_git(place.board.root, "add", "--all")
    plain_git(place.board.root, "-c", "user.name=a", "-c", "user.email=a", "commit", "-m", "so")


async def test_git_sees_job_files_and_records_but_no_temporary_files(
    place: FolderHarness,
) -> None:
    plain_git(place.board.root, "init")
    place.drop_repo_job("page", "echo x > page", verify="true")
    place.drop("bad", "true", prioritty="high")
    await place.run()
    assert changed(place) == {
        *(".state/.gitignore", ".state/page.json", ".state/page.events.jsonl"),
        *("building/.gitignore", "testing/page.md", "logs/page.log"),
        *("failed/bad.md", "failed/bad.errors.txt"),
    }
    commit(place)
    place.act("page", "ship")
    await place.run()
    assert changed(place) >= {"testing/page.md", "shipped/page.md", ".state/page.json"}
    assert place.remote.text("main", "page") == "x"


async def test_commits_added_by_people_need_another_decision_and_are_counted(
    place: FolderHarness,
) -> None:
    place.drop_repo_job("page", "echo x > page", verify="true")
    await place.run()
    checkpoint = place.job("page").checkpoint
    assert checkpoint is not None
    newer = place.remote.commit({"page": "y\n"}, branch=checkpoint.branch)
    place.act("page", "ship")
    await place.run()
    job = place.job("page")
    assert (job.stage, job.head, "ship_failed" in place.event_types("page")) == (
        "testing",
        newer,
        True,
    )
    place.act("page", "ship")
    await place.run()
    assert place.remote.text("main", "page") == "y"
    runs = place.record("page").runs
    assert [(run.step, run.edited_lines) for run in runs] == [
        ("run", 2),
        ("ship", None),
        ("ship", None),
    ]


async def test_git_checkout_restores_the_board(place: FolderHarness) -> None:
    plain_git(place.board.root, "init")
    place.drop("page", "true", not_before="1d")
    await place.run()
    commit(place)
    (place.board.column("inbox") / "page.md").unlink()
    place.board.record("page").unlink()
    plain_git(place.board.root, "checkout", "--", ".")
    await place.run()
    assert (place.job("page").stage, place.event_types("page")) == ("queued", ["submitted"])


async def test_job_does_not_see_the_repo_of_its_queue(place: FolderHarness) -> None:
    plain_git(place.board.root, "init")
    place.drop("nosy", "git rev-parse --show-toplevel && exit 1; true", verify="true")
    await place.run()
    assert place.job("nosy").stage == "testing", place.log("nosy")


async def test_custom_gitignore_is_kept(place: FolderHarness) -> None:
    (place.board.root / ".state" / ".gitignore").write_text("*\n")
    await place.run()
    assert (place.board.root / ".state" / ".gitignore").read_text() == "*\n"
