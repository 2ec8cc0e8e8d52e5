"""Escapes from a run through a repo that a job has created or chosen: each one is a fixed bug.

The factories here have the widest permitted root: it contains even their data folder.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gigafactory.domain.errors import Forbidden
from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.run.in_place import find_repos_below
from tests.services import few_tools
from tests.support.factory.git_repo import plain_git as git
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.real_sandbox import a_sandbox, search_path
from tests.support.polling import until

# The first test on a machine downloads bubblewrap.
pytestmark = pytest.mark.timeout(600)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def planting(harness: FactoryHarness, where: str, *, bare: bool = True) -> str:
    """Return a script that creates a repo whose hooks and settings leave a trace on the machine."""
    trace = harness.folder / "escaped"
    git_dir = where if bare else f"{where}/.git"
    return f"""
    git init -q -b main {"--bare" if bare else ""} "{where}"
    work=$(mktemp -d); git init -q -b main "$work"
    git -C "$work" -c user.name=x -c user.email=x@x commit -q --allow-empty -m Begin
    git -C "$work" push -q "{where}" HEAD:refs/heads/start
    git --git-dir="{git_dir}" update-ref refs/heads/main refs/heads/start
    mkdir -p "{git_dir}/hooks"
    for hook in pre-receive update post-receive reference-transaction push-to-checkout; do
        printf '#!/bin/sh\\nid > {trace}\\n' > "{git_dir}/hooks/$hook"
        chmod +x "{git_dir}/hooks/$hook"
    done
    git --git-dir="{git_dir}" config core.fsmonitor 'id > {trace}; false'
    git --git-dir="{git_dir}" config core.alternateRefsCommand 'id > {trace}; true'
    echo planted
    """


def is_free(harness: FactoryHarness) -> bool:
    return (harness.folder / "escaped").exists()


def refused(job: dict[str, Any]) -> str:
    assert (job["stage"], job["result"]) == ("failed", "setup_failed"), job["reason"]
    reason: str = job["reason"]
    return reason


@pytest.mark.parametrize("policy", ["none", pytest.param("strict", marks=on_linux)])
async def test_a_repo_in_the_home_of_another_job_is_refused(
    harness: FactoryHarness, policy: Policy
) -> None:
    environ = None
    if policy == "strict":
        await a_sandbox(harness.folder, minimum=policy)
        environ = {"PATH": search_path()}
    async with harness.factory(roots=(harness.folder,), sandbox=policy, environ=environ):
        first = await harness.submit(
            planting(harness, "$HOME/evil.git") + "echo > work", ship="none"
        )
        await harness.wait_until_idle(first, at="testing")
        evil = harness.data_dir().home(first) / "evil.git"
        assert (evil / "hooks" / "pre-receive").exists()
        for path in (str(evil), f"{evil}/", f"/{evil}"):
            second = await harness.wait_until_idle(await harness.submit("touch x", repo=path))
            assert "inside the data folder" in refused(second)
        link = harness.folder / "innocent.git"
        link.symlink_to(evil)
        third = await harness.wait_until_idle(await harness.submit("touch x", repo=str(link)))
        assert "inside the data folder" in refused(third)
    assert not is_free(harness)


async def test_an_agent_cannot_hand_a_repo_of_its_own_to_a_child(harness: FactoryHarness) -> None:
    plan = f"""{planting(harness, "$HOME/evil.git")}
    mkdir -p .aq && cat > .aq/plan.yaml <<END
- name: child
  body: touch x
  engine: command
  repo: $HOME/evil.git
  verify: 'true'
END
"""
    async with harness.factory(roots=(harness.folder,)):
        job_id = await harness.submit(
            plan, kind="composite", profile="planner", reviewPolicy="auto", verify=None
        )
        data = (await harness.api.get(f"/jobs/{job_id}/dag")).json()
        planner = data["nodes"][1]["id"]
        await harness.wait_until_idle(planner, at="shipped")
        data = (await harness.api.get(f"/jobs/{job_id}/dag")).json()
        child = next(node["id"] for node in data["nodes"] if node["name"] == "child")
        assert "inside the data folder" in refused(await harness.wait_until_idle(child))
    assert not is_free(harness)


async def test_a_job_does_not_ship_into_what_a_shell_starts(harness: FactoryHarness) -> None:
    shell = harness.folder / ".oh-my-zsh"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(shell))
    async with harness.factory(roots=(harness.folder,)):
        job = await harness.wait_until_idle(
            await harness.submit("echo 'id' > oh-my-zsh.sh", repo=str(shell))
        )
    assert "starts with a dot" in refused(job)
    assert [path.name for path in shell.iterdir() if path.name != ".git"] == ["README.md"]


async def test_a_repo_that_a_job_made_in_a_plain_folder_is_never_opened(
    harness: FactoryHarness,
) -> None:
    folder = harness.folder / "desk" / "papers"
    folder.mkdir(parents=True)
    async with harness.factory(roots=(harness.folder / "desk",)):
        first = await harness.submit(
            planting(harness, str(folder), bare=False), repo=None, cwd=str(folder), ship="none"
        )
        await harness.wait_until_idle(first, at="testing")
        assert (folder / ".git" / "hooks" / "pre-receive").exists()
        second = await harness.submit("echo > work", repo=None, cwd=str(folder), ship="none")
        await harness.wait_until_idle(second, at="testing")
        assert "which is not in a repo" in await harness.log(second)
        third = await harness.wait_until_idle(await harness.submit("touch x", repo=str(folder)))
        assert "a job may have made this repo" in refused(third)
    assert not is_free(harness)
    assert git(folder, "for-each-ref", "refs/heads/aq") == ""


async def test_a_repo_that_a_job_made_inside_of_a_checkout_is_never_opened(
    harness: FactoryHarness,
) -> None:
    checkout = harness.folder / "desk" / "notes"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(checkout))
    inside = checkout / "evil"
    async with harness.factory(roots=(harness.folder / "desk",)):
        first = await harness.submit(
            planting(harness, str(inside), bare=False) + "echo > work", repo=None, cwd=str(checkout)
        )
        await harness.wait_until_idle(first, at="testing")
        second = await harness.submit("echo > more", repo=None, cwd=str(inside))
        await harness.wait_until_idle(second, at="testing")
        third = await harness.wait_until_idle(await harness.submit("touch x", repo=str(inside)))
        assert "is inside the checkout" in refused(third)
    assert not is_free(harness)
    assert git(inside, "for-each-ref", "refs/heads/aq") == ""


async def test_a_job_is_not_given_a_folder_full_of_checkouts(harness: FactoryHarness) -> None:
    git(
        harness.folder,
        "clone",
        "-q",
        str(harness.remote.path),
        str(harness.folder / "desk" / "notes"),
    )
    async with harness.factory(roots=(harness.folder / "desk",)):
        job = await harness.wait_until_idle(
            await harness.submit(
                "touch x", repo=None, cwd=str(harness.folder / "desk"), ship="none"
            )
        )
    assert "contains checkouts (notes): name one of them" in refused(job)


@pytest.mark.parametrize("inside", ["notes.git", "notes.git/hooks", "notes.git/objects/info"])
async def test_a_job_does_not_work_in_place_in_a_bare_repo(
    harness: FactoryHarness, inside: str
) -> None:
    bare = harness.folder / "desk" / "notes.git"
    git(harness.folder, "clone", "-q", "--bare", str(harness.remote.path), str(bare))
    before = sorted(path.name for path in (harness.folder / "desk" / inside).iterdir())
    async with harness.factory(roots=(harness.folder / "desk",)):
        job = await harness.wait_until_idle(
            await harness.submit(
                "touch planted", repo=None, cwd=str(harness.folder / "desk" / inside), ship="none"
            )
        )
    assert "is inside the git folder" in refused(job)
    assert sorted(path.name for path in (harness.folder / "desk" / inside).iterdir()) == before


@pytest.mark.parametrize("where", ["teams/red/notes", ".cache/notes", "a/b/c/d/notes.git"])
async def test_a_checkout_deep_in_a_folder_is_found_too(
    harness: FactoryHarness, where: str
) -> None:
    bare = ["--bare"] if where.endswith(".git") else []
    git(harness.folder, "clone", "-q", *bare, str(harness.remote.path), f"desk/{where}")
    async with harness.factory(roots=(harness.folder / "desk",)):
        job = await harness.wait_until_idle(
            await harness.submit(
                "touch x", repo=None, cwd=str(harness.folder / "desk"), ship="none"
            )
        )
    assert f"contains checkouts ({where})" in refused(job)


def test_a_folder_that_is_too_large_to_tell_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    assert find_repos_below(tmp_path, entries_max=3) == []
    with pytest.raises(Forbidden, match="more than 2 entries"):
        find_repos_below(tmp_path, entries_max=2)


async def test_a_ship_does_not_follow_the_links_of_a_run_in_place(harness: FactoryHarness) -> None:
    checkout, private = harness.folder / "desk" / "notes", harness.folder / "private"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(checkout))
    (checkout / ".git" / "info" / "exclude").write_text("ready\ngo\n")
    private.mkdir()
    # The link appears between two files that a ship writes into one folder.
    swaps = f"""
    touch ready
    until [ -e d/0 ] || [ -e go ]; do :; done
    [ -e go ] || (mv d moved && ln -s {private} d)
    """
    async with harness.factory(roots=(harness.folder / "desk",)):
        files = "mkdir d; for n in $(seq 0 3000); do echo $n > d/$n; done"
        first = await harness.submit(files, repo=str(checkout))
        await harness.wait_until_idle(first, at="testing")
        second = await harness.submit(swaps, repo=None, cwd=str(checkout), ship="none")
        await until((checkout / "ready").exists)
        await harness.act(first, "ship")
        await harness.wait_for_log(first, "a job works in place in the checkout")
        assert list(private.iterdir()) == []
        (checkout / "go").touch()
        await harness.wait_until_idle(second)
    assert not (checkout / "d").exists()


async def test_a_job_does_not_work_where_the_factory_starts_programs(
    harness: FactoryHarness,
) -> None:
    checkout = harness.folder / "desk" / "tools"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(checkout))
    (checkout / "bin").mkdir()
    (checkout / "sub").mkdir()
    environ = {"PATH": f"{checkout}/bin:{few_tools.search_path()}"}
    async with harness.factory(roots=(harness.folder / "desk",), environ=environ):
        for cwd in (checkout, checkout / "sub"):
            job = await harness.wait_until_idle(
                await harness.submit("touch bin/claude", repo=None, cwd=str(cwd))
            )
            assert "from which this factory starts programs" in refused(job)


async def test_a_repo_that_a_job_shipped_as_files_is_never_opened(harness: FactoryHarness) -> None:
    checkout, private = harness.folder / "desk" / "notes", harness.folder / "private"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(checkout))
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(private))
    body = f"""
    mkdir -p evil.git/objects/info evil.git/refs/heads; cd evil.git
    echo 'ref: refs/heads/main' > HEAD
    echo {private}/.git/objects > objects/info/alternates
    ln -s {private}/.git/refs/heads/main refs/heads/main
    """
    async with harness.factory(roots=(harness.folder / "desk",)):
        first = await harness.submit(body, repo=str(checkout), shipPolicy="auto")
        await harness.wait_until_idle(first, at="shipped")
        assert (checkout / "evil.git" / "refs" / "heads" / "main").is_symlink()
        job = await harness.wait_until_idle(
            await harness.submit("touch x", repo=str(checkout / "evil.git"))
        )
    assert "is inside the checkout" in refused(job)


async def test_a_job_cannot_swap_the_folder_of_another_for_a_link(harness: FactoryHarness) -> None:
    desk, other = harness.folder / "desk", harness.folder / "private"
    for folder in (desk / "below", other):
        folder.mkdir(parents=True)
    waits = f"touch {harness.folder}/ready; until [ -e {harness.folder}/go ]; do sleep 0.02; done"
    async with harness.factory(roots=(desk,)):
        first = await harness.submit(
            f"{waits}; rmdir below; ln -s {other} below", repo=None, cwd=str(desk), ship="none"
        )
        await until((harness.folder / "ready").exists)
        second = await harness.submit("touch x", repo=None, cwd=str(desk / "below"), ship="none")
        await until_started(harness, second)
        (harness.folder / "go").touch()
        await harness.wait_until_idle(first, at="testing")
        job = await harness.wait_until_idle(second)
    assert "not below a folder that jobs may use" in refused(job)
    assert list(other.iterdir()) == []


async def until_started(harness: FactoryHarness, job_id: str) -> None:
    async def started() -> bool:
        return (
            "started" in await harness.event_types(job_id)
            or "building" in (await harness.job(job_id))["stage"]
        )

    await until(started)


@on_linux
async def test_a_job_in_place_cannot_change_the_git_folder_of_a_person(
    harness: FactoryHarness,
) -> None:
    checkout = harness.folder / "desk" / "notes"
    git(harness.folder, "clone", "-q", str(harness.remote.path), str(checkout))
    await a_sandbox(harness.folder)
    body = f"""
    for place in .git/config .git/hooks/pre-commit .git/HEAD ../beside {harness.folder}/out; do
        if echo x 2>/dev/null >> $place; then echo "wrote $place"; fi
    done
    mv .git .git-2 2>/dev/null && echo moved
    echo > work
    """
    roots, environ = (harness.folder / "desk",), {"PATH": search_path()}
    async with harness.factory(roots=roots, sandbox="workspace", environ=environ):
        job_id = await harness.submit(body, repo=None, cwd=str(checkout))
        job = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert job["result"] == "ok", log
    assert (checkout / "work").exists()
    assert not {"wrote .git/config", "wrote .git/hooks/pre-commit", "moved"} & {*log.splitlines()}
    assert not (harness.folder / "out").exists()
