"""Delivery to a forge: the result is pushed, and the agent's text becomes the pull request."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gigafactory.factory.forges.forge import Forge
from gigafactory.factory.forges.github import open_github
from gigafactory.factory.forges.registry import Forges
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.git.workspace import RepoWorkspace
from gigafactory.factory.git.worktree import Worktree
from gigafactory.factory.phases.push import push_result
from gigafactory.factory.phases.ship import ship
from gigafactory.factory.run.active_run import ActiveRun
from tests.services.emulate import OWNER, TOKEN
from tests.support.factory.git_repo import GitHarness, write
from tests.support.factory.github_repo import (
    BRANCH,
    GitHubRepo,
    Interrupted,
    RecordingTransport,
    ShippingRuns,
    forges,
)

pytestmark = pytest.mark.service

SECRET = "correct-horse-battery-staple"


class HereToo(Forges):
    """Forges that map a local repo to the emulated GitHub, which has no git server."""

    def __init__(self, hub: GitHubRepo, wire: RecordingTransport) -> None:
        super().__init__()
        self._hub = hub
        self._wire = wire

    def forge_for(self, address: RemoteAddress) -> AbstractAsyncContextManager[Forge] | None:
        repo = f"{OWNER}/{self._hub.name}"
        return open_github(self._hub.api, TOKEN, repo, transport=self._wire)


async def placed(run: ActiveRun, worktree: Worktree) -> None:
    run.workspace = RepoWorkspace(
        worktree, run.assignment, base_branch="main", base=worktree.commit
    )


async def test_agent_text_becomes_the_pull_request_and_is_never_committed(
    hub: GitHubRepo, desk: ShippingRuns, tmp_path: Path
) -> None:
    world, wire = GitHarness(tmp_path), RecordingTransport()
    worktree = await world.worktree()
    run, reporter = desk.run(HereToo(hub, wire), commit=worktree.commit, secrets=[SECRET])
    await placed(run, worktree)
    text = f"# Greets people\n\nIt says hello.\n<!-- aq:job-9:9 -->\nNot {SECRET}.\n"
    write(worktree.path, {"hello.txt": "hello\n", ".aq/pr.md": text})
    assert await push_result(run) is None
    commit = world.remote.commit_of(BRANCH)
    assert commit is not None
    assert world.remote.text(commit, "hello.txt") == "hello"
    assert run.findings.checkpoint is not None
    assert (run.findings.checkpoint.commit, run.findings.checkpoint.branch) == (commit, BRANCH)
    [pull] = await hub.pulls()
    assert pull["title"] == "Greets people"
    assert pull["body"] == "It says hello.\n\nNot [redacted].\n\n<!-- aq:job-1:job-1.2 -->"
    assert (pull["head"]["ref"], pull["base"]["ref"]) == (BRANCH, "main")
    with pytest.raises(Exception, match="non-zero"):
        world.remote.text(commit, ".aq/pr.md")
    assert wire.changes == ["POST pulls"]
    assert reporter.intents == ["opens"]


async def test_failing_forge_does_not_lose_the_pushed_result(
    hub: GitHubRepo, desk: ShippingRuns, tmp_path: Path
) -> None:
    world, wire = GitHarness(tmp_path), RecordingTransport()
    worktree = await world.worktree()
    await hub.ask("PATCH", hub.url, {"name": f"{hub.name}-gone"})
    run, _ = desk.run(HereToo(hub, wire), commit=worktree.commit)
    await placed(run, worktree)
    write(worktree.path, {"hello.txt": "hello\n"})
    assert await push_result(run) is None
    assert world.remote.commit_of(BRANCH) is not None
    desk.close()
    assert "no pull request yet" in run.log.read(0).decode()


async def test_agent_text_is_kept_for_the_ship_while_the_forge_is_unreachable(
    hub: GitHubRepo, desk: ShippingRuns, tmp_path: Path, work: str
) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    await hub.ask("PATCH", hub.url, {"name": f"{hub.name}-gone"})
    run, _ = desk.run(HereToo(hub, RecordingTransport()), commit=worktree.commit)
    await placed(run, worktree)
    write(worktree.path, {"hello.txt": "hello\n", ".aq/pr.md": "# Greets people\n\nIt does.\n"})
    assert await push_result(run) is None
    await hub.ask("PATCH", f"{hub.url}-gone", {"name": hub.name})
    later, _ = desk.run(forges(hub), commit=work, run_id="job-1.3", home=run.home)
    assert await ship(later) is None
    [pull] = await hub.pulls()
    assert (pull["title"], pull["body"].split("\n")[0]) == ("Greets people", "It does.")


async def test_job_with_ship_none_gets_no_pull_request(
    hub: GitHubRepo, desk: ShippingRuns, tmp_path: Path
) -> None:
    world, wire = GitHarness(tmp_path), RecordingTransport()
    worktree = await world.worktree()
    run, _ = desk.run(HereToo(hub, wire), commit=worktree.commit, ship="none")
    await placed(run, worktree)
    write(worktree.path, {"hello.txt": "hello\n"})
    assert await push_result(run) is None
    assert (wire.requests, await hub.pulls()) == ([], [])


async def test_repeated_delivery_after_a_cut_opens_no_second_pull_request(
    hub: GitHubRepo, desk: ShippingRuns, tmp_path: Path
) -> None:
    world, cut, wire = (
        GitHarness(tmp_path),
        RecordingTransport(breaks_after=1),
        RecordingTransport(),
    )
    worktree = await world.worktree()
    write(worktree.path, {"hello.txt": "hello\n"})
    run, _ = desk.run(HereToo(hub, cut), commit=worktree.commit, run_id="job-1.1")
    await placed(run, worktree)
    with pytest.raises(Interrupted):
        await push_result(run)
    for _ in range(2):
        successor, _ = desk.run(HereToo(hub, wire), commit=worktree.commit, run_id="job-1.2")
        await placed(successor, worktree)
        assert await push_result(successor) is None
    assert (cut.changes, wire.changes) == (["POST pulls"], ["POST comments"])
    assert len(await hub.pulls()) == 1
