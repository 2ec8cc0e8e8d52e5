"""A factory that runs jobs with real git, real processes and a real coordinator."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gigafactory.factory.agent.agent import ExitCondition
from gigafactory.factory.agent.membership import FleetMembership, save_membership
from tests.services.few_tools import search_path
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def test_job_runs_from_submission_to_shipped_commit(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt", verify="grep -q hello hello.txt")
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok")
        assert done["checkpoint"]["branch"] == f"aq/job/{job_id}"
        assert harness.remote.commit_of(f"aq/job/{job_id}") == done["checkpoint"]["commit"]
        assert harness.remote.commit_of("main") == harness.start, "nothing is shipped by itself"
        await harness.act(job_id, "ship")
        assert (await harness.wait_until_idle(job_id, at="shipped"))["reason"] is None
    assert harness.remote.text("main", "hello.txt") == "hello"
    assert await harness.event_types(job_id) == [
        *("submitted", "offered", "assigned", "started", "checkpoint"),
        *("diff_added", "checkpoint", "usage", "verify_passed", "diff", "tested"),
        *("ship_requested", "offered", "assigned", "ship_intent", "shipped"),
    ]
    assert list(harness.data_dir().worktrees.iterdir()) == []


async def test_engine_stdout_and_stderr_are_in_the_job_log(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo to stdout; echo to stderr >&2; touch x")
        await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert "to stdout\n" in log
    assert "to stderr\n" in log
    assert "aq: ended: ok\n" in log


@pytest.mark.parametrize(
    ("body", "manifest", "result"),
    [
        ("exit 3", {}, "crash"),
        ("true", {}, "no_change"),
        ("echo x > x", {"verify": "echo bad; exit 1"}, "verify_failed"),
        ("echo x > x", {"setup": "echo no; exit 1"}, "setup_failed"),
        ("echo x > x", {"allowedScope": ["docs/**"]}, "scope_violation"),
        ("sleep 600", {"timeout": "1s"}, "timeout"),
        ("sleep 600", {"stall": "1s"}, "timeout"),
        ("sleep 600", {"budget": {"wall": "1s"}}, "budget_exceeded"),
        ("echo x > x", {"base": "no-such-branch"}, "setup_failed"),
    ],
)
async def test_failed_run_has_one_result_class_and_a_reason(
    harness: FactoryHarness, body: str, manifest: dict[str, object], result: str
) -> None:
    async with harness.factory():
        job_id = await harness.submit(body, **manifest)
        ended = await harness.wait_until_idle(job_id)
        assert (ended["stage"], ended["result"]) == ("failed", result), ended["reason"]
        assert ended["reason"]
    assert harness.remote.commit_of(f"aq/job/{job_id}") is None


async def test_job_without_a_repo_runs_in_its_own_folder(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("pwd; ls -A; touch here", repo=None, ship="none")
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["checkpoint"]) == ("testing", None), done["reason"]


async def test_run_gets_its_own_port_range(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit('test "$AQ_PORT_BASE" -ge 20000', repo=None, ship="none")
        assert (await harness.wait_until_idle(job_id))["result"] == "ok"


async def test_jobs_of_one_repo_run_concurrently(harness: FactoryHarness) -> None:
    async with harness.factory(seats={"command": 2}):
        meet = harness.folder / "meet"
        meet.mkdir()
        wait = "for i in 1 2 3 4 5 6 7 8 9; do [ -e {} ] && exit 0; sleep 0.2; done; exit 1"
        one = await harness.submit(f"touch one {meet}/one; " + wait.format(f"{meet}/two"))
        two = await harness.submit(f"touch two {meet}/two; " + wait.format(f"{meet}/one"))
        assert (await harness.wait_until_idle(one))["result"] == "ok"
        assert (await harness.wait_until_idle(two))["result"] == "ok"


async def test_a_cancelled_run_stops_and_pushes_no_result(harness: FactoryHarness) -> None:
    async with harness.factory() as agent:
        job_id = await harness.submit("echo x > x; echo under way; sleep 600")
        await harness.wait_for_log(job_id, "under way")
        await harness.act(job_id, "cancel")
        await until(lambda: not agent.running_jobs)
        assert (await harness.job(job_id))["stage"] == "cancelled"
    assert harness.remote.commit_of(f"aq/job/{job_id}") is None


async def test_released_job_resumes_from_its_checkpoint_on_another_factory(
    harness: FactoryHarness,
) -> None:
    body = "if [ -e half ]; then echo done > whole; else echo x > half; echo half; sleep 600; fi"
    async with harness.factory("mac-1") as first:
        job_id = await harness.submit(body)
        await harness.wait_for_log(job_id, "half\n")
        first.drain()
        first.drain()
        await until(lambda: not first.running_jobs)
    handed = await harness.job(job_id)
    assert handed["stage"] == "queued", handed
    assert handed["checkpoint"]["branch"] == f"aq/wip/{job_id}/1"
    async with harness.factory("mac-2"):
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), done["reason"]
    commit = done["checkpoint"]["commit"]
    assert harness.remote.text(commit, "half") == "x"
    assert harness.remote.text(commit, "whole") == "done"


async def test_factory_stops_after_its_maximum_number_of_jobs(harness: FactoryHarness) -> None:
    async with harness.factory(ends=ExitCondition(jobs_max=1)) as agent:
        first = await harness.submit("touch one", lock="a")
        second = await harness.submit("touch two", lock="a")
        assert (await harness.wait_until_idle(first))["stage"] == "testing"
        await until(lambda: not agent.running_jobs)
        assert (await harness.job(second))["stage"] == "queued"


@pytest.mark.parametrize("source", ["gate", "poll"])
async def test_factory_in_gate_or_poll_mode_claims_jobs(
    harness: FactoryHarness, source: str
) -> None:
    job_id = await harness.submit("touch x")
    async with harness.factory(source=source):
        assert (await harness.wait_until_idle(job_id))["result"] == "ok"


async def test_change_to_a_protected_path_requires_review(harness: FactoryHarness) -> None:
    await harness.api.put("/products/notes", json={"protectedPaths": ["ci/**"]})
    async with harness.factory():
        job_id = await harness.submit("mkdir ci; touch ci/deploy", verify="true")
        assert (await harness.wait_until_idle(job_id))["stage"] == "review"


async def test_merge_conflict_leaves_the_base_unchanged(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo ours > README.md")
        await harness.wait_until_idle(job_id)
        theirs = harness.remote.commit({"README.md": "theirs\n"})
        await harness.act(job_id, "ship")

        async def tried() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(tried)
        ended = await harness.job(job_id)
        assert ended["stage"] == "testing"
        assert "README.md" in ended["reason"]
    assert harness.remote.commit_of("main") == theirs


async def test_factory_secret_in_the_work_is_not_pushed(harness: FactoryHarness) -> None:
    environ = {"PATH": search_path(), "DEPLOY_TOKEN": "correct-horse-battery"}
    async with harness.factory(environ=environ, env=("DEPLOY_TOKEN",)):
        job_id = await harness.submit(
            'echo "$DEPLOY_TOKEN" > notes; cat notes', env=["DEPLOY_TOKEN"]
        )
        ended = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert (ended["stage"], ended["result"]) == ("failed", "scope_violation")
    assert "notes" in ended["reason"]
    assert "correct-horse" not in ended["reason"] + log
    for branch in harness.remote.branches():
        assert "correct-horse" not in harness.remote.text(branch, "README.md")
        assert harness.remote.commit_of(branch) == harness.start


async def test_factory_with_one_slot_takes_the_next_job_without_declining_offers(
    harness: FactoryHarness,
) -> None:
    async with harness.factory(slots=1):
        jobs = [await harness.submit(f"touch file-{number}") for number in range(4)]
        for job_id in jobs:
            await harness.wait_until_idle(job_id)
        for job_id in jobs:
            story = await harness.event_types(job_id)
            assert story.count("offered") == 1, "no offer was declined for want of room"
            assert "fenced" not in story


async def test_running_factory_switches_to_a_rotated_token(harness: FactoryHarness) -> None:
    async with harness.factory() as agent:
        token = await harness.token("mac-1")
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=harness.api.base_url, headers=headers) as factory:
            answer = await factory.post("/factories/mac-1/token/rotate")
        save_membership(
            harness.data_dir(), FleetMembership(harness.server.url, "mac-1", answer.json()["token"])
        )
        job_id = await harness.submit("touch file")
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
        assert not agent.draining


async def test_wall_budget_covers_all_runs_of_a_job(tmp_path: Path) -> None:
    async with a_local_harness(tmp_path) as harness, harness.factory():
        go = tmp_path / "go"
        job_id = await harness.submit(
            f"echo begun; until [ -e {go} ]; do sleep 0.05; done; exit 1",
            budget={"wall": "60s"},
            retry={"max": 1, "backoff": "1s"},
        )
        await harness.wait_for_log(job_id, "begun")
        harness.clock.advance(timedelta(seconds=70))
        go.touch()
        await harness.wait_until_idle(job_id, at="queued")
        harness.clock.advance(timedelta(minutes=5))
        job = await harness.wait_until_idle(job_id)
        runs = await harness.runs(job_id)
    assert [run["result"] for run in runs] == ["crash", "budget_exceeded"]
    assert "budget.wall" in job["reason"]
