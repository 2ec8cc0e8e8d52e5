"""Ways out of a run over a repo that a job has made or chosen: each was open once.

The factories here allow all that an operator may: a root that contains even their data folder.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from tests.support.factory.git_repo import plain_git as git
from tests.support.factory.local_fleet import Yard, a_yard
from tests.support.factory.real_sandbox import a_sandbox, search_path
from tests.support.polling import until

# The first test on a machine fetches bubblewrap.
pytestmark = pytest.mark.timeout(600)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with a_yard(tmp_path) as made:
        yield made


def planting(yard: Yard, where: str, *, bare: bool = True) -> str:
    """A script that makes a repo whose hooks and settings leave a trace on the machine."""
    trace = yard.folder / "escaped"
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


def is_free(yard: Yard) -> bool:
    return (yard.folder / "escaped").exists()


def refused(job: dict[str, Any]) -> str:
    assert (job["stage"], job["result"]) == ("failed", "setup_failed"), job["reason"]
    reason: str = job["reason"]
    return reason


@pytest.mark.parametrize("policy", ["none", pytest.param("strict", marks=on_linux)])
async def test_a_repo_in_the_home_of_another_job_is_refused(yard: Yard, policy: Policy) -> None:
    environ = None
    if policy == "strict":
        await a_sandbox(yard.folder, least=policy)
        environ = {"PATH": search_path()}
    async with yard.factory(roots=(yard.folder,), sandbox=policy, environ=environ):
        first = await yard.submit(planting(yard, "$HOME/evil.git") + "echo > work", ship="none")
        await yard.rests(first, at="testing")
        evil = yard.data_dir().home(first) / "evil.git"
        assert (evil / "hooks" / "pre-receive").exists()
        for path in (str(evil), f"{evil}/", f"/{evil}"):
            second = await yard.rests(await yard.submit("touch x", repo=path))
            assert "inside the data folder" in refused(second)
        link = yard.folder / "innocent.git"
        link.symlink_to(evil)
        third = await yard.rests(await yard.submit("touch x", repo=str(link)))
        assert "inside the data folder" in refused(third)
    assert not is_free(yard)


async def test_an_agent_cannot_hand_a_repo_of_its_own_to_a_child(yard: Yard) -> None:
    plan = f"""{planting(yard, "$HOME/evil.git")}
    mkdir -p .aq && cat > .aq/plan.yaml <<END
- name: child
  body: touch x
  engine: command
  repo: $HOME/evil.git
  verify: 'true'
END
"""
    async with yard.factory(roots=(yard.folder,)):
        job_id = await yard.submit(
            plan, kind="composite", profile="planner", reviewPolicy="auto", verify=None
        )
        told = (await yard.people.get(f"/jobs/{job_id}/dag")).json()
        planner = told["nodes"][1]["id"]
        await yard.rests(planner, at="shipped")
        told = (await yard.people.get(f"/jobs/{job_id}/dag")).json()
        child = next(node["id"] for node in told["nodes"] if node["name"] == "child")
        assert "inside the data folder" in refused(await yard.rests(child))
    assert not is_free(yard)


async def test_a_job_does_not_ship_into_what_a_shell_starts(yard: Yard) -> None:
    shell = yard.folder / ".oh-my-zsh"
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(shell))
    async with yard.factory(roots=(yard.folder,)):
        job = await yard.rests(await yard.submit("echo 'id' > oh-my-zsh.sh", repo=str(shell)))
    assert "starts with a dot" in refused(job)
    assert [path.name for path in shell.iterdir() if path.name != ".git"] == ["README.md"]


async def test_a_repo_that_a_job_made_in_a_plain_folder_is_never_opened(yard: Yard) -> None:
    folder = yard.folder / "desk" / "papers"
    folder.mkdir(parents=True)
    async with yard.factory(roots=(yard.folder / "desk",)):
        first = await yard.submit(
            planting(yard, str(folder), bare=False), repo=None, cwd=str(folder), ship="none"
        )
        await yard.rests(first, at="testing")
        assert (folder / ".git" / "hooks" / "pre-receive").exists()
        second = await yard.submit("echo > work", repo=None, cwd=str(folder), ship="none")
        await yard.rests(second, at="testing")
        assert "which is not in a repo" in await yard.log(second)
        third = await yard.rests(await yard.submit("touch x", repo=str(folder)))
        assert "a job may have made this repo" in refused(third)
    assert not is_free(yard)
    assert git(folder, "for-each-ref", "refs/heads/aq") == ""


async def test_a_repo_that_a_job_made_inside_of_a_checkout_is_never_opened(yard: Yard) -> None:
    checkout = yard.folder / "desk" / "notes"
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(checkout))
    inside = checkout / "evil"
    async with yard.factory(roots=(yard.folder / "desk",)):
        first = await yard.submit(
            planting(yard, str(inside), bare=False) + "echo > work", repo=None, cwd=str(checkout)
        )
        await yard.rests(first, at="testing")
        second = await yard.submit("echo > more", repo=None, cwd=str(inside))
        await yard.rests(second, at="testing")
        third = await yard.rests(await yard.submit("touch x", repo=str(inside)))
        assert "is inside the checkout" in refused(third)
    assert not is_free(yard)
    assert git(inside, "for-each-ref", "refs/heads/aq") == ""


async def test_a_job_is_not_given_a_folder_full_of_checkouts(yard: Yard) -> None:
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(yard.folder / "desk" / "notes"))
    async with yard.factory(roots=(yard.folder / "desk",)):
        job = await yard.rests(
            await yard.submit("touch x", repo=None, cwd=str(yard.folder / "desk"), ship="none")
        )
    assert "contains checkouts (notes): name one of them" in refused(job)


async def test_a_repo_that_a_job_shipped_as_files_is_never_opened(yard: Yard) -> None:
    checkout, private = yard.folder / "desk" / "notes", yard.folder / "private"
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(checkout))
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(private))
    body = f"""
    mkdir -p evil.git/objects/info evil.git/refs/heads; cd evil.git
    echo 'ref: refs/heads/main' > HEAD
    echo {private}/.git/objects > objects/info/alternates
    ln -s {private}/.git/refs/heads/main refs/heads/main
    """
    async with yard.factory(roots=(yard.folder / "desk",)):
        first = await yard.submit(body, repo=str(checkout), shipPolicy="auto")
        await yard.rests(first, at="shipped")
        assert (checkout / "evil.git" / "refs" / "heads" / "main").is_symlink()
        job = await yard.rests(await yard.submit("touch x", repo=str(checkout / "evil.git")))
    assert "is inside the checkout" in refused(job)


async def test_a_job_cannot_swap_the_folder_of_another_for_a_link(yard: Yard) -> None:
    desk, other = yard.folder / "desk", yard.folder / "private"
    for folder in (desk / "below", other):
        folder.mkdir(parents=True)
    waits = f"touch {yard.folder}/ready; until [ -e {yard.folder}/go ]; do sleep 0.02; done"
    async with yard.factory(roots=(desk,)):
        first = await yard.submit(
            f"{waits}; rmdir below; ln -s {other} below", repo=None, cwd=str(desk), ship="none"
        )
        await until((yard.folder / "ready").exists)
        second = await yard.submit("touch x", repo=None, cwd=str(desk / "below"), ship="none")
        await until_started(yard, second)
        (yard.folder / "go").touch()
        await yard.rests(first, at="testing")
        job = await yard.rests(second)
    assert "not below a folder that jobs may use" in refused(job)
    assert list(other.iterdir()) == []


async def until_started(yard: Yard, job_id: str) -> None:
    async def started() -> bool:
        return (
            "started" in await yard.story(job_id) or "building" in (await yard.job(job_id))["stage"]
        )

    await until(started)


@on_linux
async def test_a_job_in_place_cannot_change_the_git_folder_of_a_person(yard: Yard) -> None:
    checkout = yard.folder / "desk" / "notes"
    git(yard.folder, "clone", "-q", str(yard.remote.path), str(checkout))
    await a_sandbox(yard.folder)
    body = f"""
    for place in .git/config .git/hooks/pre-commit .git/HEAD ../beside {yard.folder}/out; do
        if echo x 2>/dev/null >> $place; then echo "wrote $place"; fi
    done
    mv .git .git-2 2>/dev/null && echo moved
    echo > work
    """
    roots, environ = (yard.folder / "desk",), {"PATH": search_path()}
    async with yard.factory(roots=roots, sandbox="workspace", environ=environ):
        job_id = await yard.submit(body, repo=None, cwd=str(checkout))
        job = await yard.rests(job_id)
        log = await yard.log(job_id)
    assert job["result"] == "ok", log
    assert (checkout / "work").exists()
    assert not {"wrote .git/config", "wrote .git/hooks/pre-commit", "moved"} & {*log.splitlines()}
    assert not (yard.folder / "out").exists()
