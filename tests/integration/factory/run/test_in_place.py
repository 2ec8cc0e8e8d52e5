"""Jobs with `cwd` work in a person's own folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import plain_git as git
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


@pytest.fixture
def checkout(harness: FactoryHarness) -> Path:
    """A person's clean checkout of `main`."""
    folder = harness.folder / "desk" / "notes"
    git(harness.folder, "clone", "-q", str(harness.folder / "remote.git"), str(folder))
    (folder / "part").mkdir()
    return folder


async def test_in_place_work_stays_in_the_folder_and_on_a_job_branch(
    harness: FactoryHarness, checkout: Path
) -> None:
    async with harness.factory(roots=(harness.folder / "desk",)):
        job_id = await harness.submit("echo hello > hello.txt; pwd", repo=None, cwd=str(checkout))
        await harness.wait_until_idle(job_id, at="testing")
        assert str(checkout) in await harness.log(job_id)
    assert (checkout / "hello.txt").read_text() == "hello\n"
    assert git(checkout, "branch", "--show-current") == "main", "the checkout was not switched"
    assert git(checkout, "rev-parse", "main") == harness.start
    assert git(checkout, "show", f"aq/job/{job_id}:hello.txt") == "hello"
    assert "hello.txt" in git(checkout, "status", "--porcelain")


async def test_in_place_ship_commits_to_the_checked_out_branch(
    harness: FactoryHarness, checkout: Path
) -> None:
    async with harness.factory(roots=(harness.folder / "desk",)):
        job_id = await harness.submit("echo hello > hello.txt", repo=None, cwd=str(checkout))
        await harness.wait_until_idle(job_id, at="testing")
        (checkout / "README.md").write_text("A person goes on meanwhile.\n")
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
    assert git(checkout, "show", "main:hello.txt") == "hello"
    assert git(checkout, "show", "main:README.md") == "Notes."
    assert git(checkout, "status", "--porcelain") == " M README.md", (
        "what a person does stays theirs"
    )


async def test_in_place_job_can_work_in_a_subfolder_of_a_checkout(
    harness: FactoryHarness, checkout: Path
) -> None:
    async with harness.factory(roots=(harness.folder / "desk",)):
        inside = checkout / "part"
        job_id = await harness.submit("echo hello > hello.txt", repo=None, cwd=str(inside))
        await harness.wait_until_idle(job_id, at="testing")
    assert git(checkout, "show", f"aq/job/{job_id}:part/hello.txt") == "hello"


async def test_in_place_folder_without_a_repo_is_changed_and_never_removed(
    harness: FactoryHarness,
) -> None:
    folder = harness.folder / "desk" / "papers"
    folder.mkdir(parents=True)
    (folder / "old.txt").write_text("old\n")
    async with harness.factory(roots=(harness.folder / "desk",)):
        job_id = await harness.submit("cp old.txt new.txt", repo=None, cwd=str(folder), ship="none")
        await harness.wait_until_idle(job_id, at="testing")
    assert sorted(path.name for path in folder.iterdir()) == ["new.txt", "old.txt"]


@pytest.mark.parametrize(
    ("cwd", "because"),
    [
        ("elsewhere", "factory.roots"),
        ("desk/missing", "does not exist"),
        ("desk/way-out", "factory.roots"),
        ("desk/disk-mac-1", "inside the data folder of a factory"),
    ],
)
async def test_in_place_job_outside_the_allowed_roots_is_rejected(
    harness: FactoryHarness, cwd: str, because: str
) -> None:
    (harness.folder / "elsewhere").mkdir()
    (harness.folder / "desk").mkdir()
    (harness.folder / "desk" / "way-out").symlink_to(harness.folder / "elsewhere")
    (harness.folder / "desk" / "disk-mac-1").symlink_to(harness.data_dir("mac-1").root)
    async with harness.factory(
        roots=(harness.folder / "desk", harness.data_dir("mac-1").root.parent)
    ):
        job_id = await harness.submit("touch x", repo=None, cwd=str(harness.folder / cwd))
        job = await harness.wait_until_idle(job_id)
    assert (job["stage"], job["result"]) == ("failed", "setup_failed")
    assert because in job["reason"]
    assert not (harness.folder / "elsewhere" / "x").exists()


async def test_in_place_job_without_configured_roots_is_rejected(
    harness: FactoryHarness, checkout: Path
) -> None:
    async with harness.factory():
        job_id = await harness.submit("touch x", repo=None, cwd=str(checkout))
        job = await harness.wait_until_idle(job_id)
    assert job["result"] == "setup_failed"
    assert "factory.roots" in job["reason"]


async def test_failed_in_place_run_keeps_the_changes_of_the_engine(
    harness: FactoryHarness, checkout: Path
) -> None:
    async with harness.factory(roots=(harness.folder / "desk",)):
        job_id = await harness.submit("echo half > half.txt; exit 3", repo=None, cwd=str(checkout))
        job = await harness.wait_until_idle(job_id)
    assert job["stage"] == "failed"
    assert (checkout / "half.txt").read_text() == "half\n"
    branch = job["checkpoint"]["branch"]
    assert branch.startswith("aq/wip/")
    assert git(checkout, "show", f"{branch}:half.txt") == "half"
