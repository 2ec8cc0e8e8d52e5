"""Artifacts of runs reach the coordinator: real processes, a real factory, real HTTP."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.services.few_tools import search_path
from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import a_process_harness
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until

SECRET = "correct-horse-battery"
ENVIRON = {"PATH": search_path(), "DEPLOY_TOKEN": SECRET}


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def left(harness: FactoryHarness, job_id: str) -> dict[str, bytes]:
    """Return the artifacts of a job by name, after a check of their size and hash."""
    listed = (await harness.api.get(f"/jobs/{job_id}/artifacts")).json()["artifacts"]
    found = {}
    for each in listed:
        data = (await harness.api.get(f"/artifacts/{each['id']}")).content
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each["size"], each["sha256"])
        found[each["name"]] = data
    return found


async def artifact_events(harness: FactoryHarness, job_id: str) -> list[dict[str, Any]]:
    events = (await harness.api.get(f"/jobs/{job_id}/events")).json()["events"]
    return [event for event in events if event["type"] == "artifact_added"]


async def test_artifacts_are_the_whole_result_of_a_job_without_a_repo(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        body = "mkdir -p out/sub; echo one > out/one.txt; echo two > out/sub/two.html; touch other"
        job_id = await harness.submit(body, repo=None, ship="none", artifacts=["out/**"])
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), done["reason"]
    assert await left(harness, job_id) == {"out/one.txt": b"one\n", "out/sub/two.html": b"two\n"}
    story = await harness.event_types(job_id)
    assert story[-1] == "tested", "the files come before the end"
    assert [event["data"]["runId"] for event in await artifact_events(harness, job_id)] == [
        f"{job_id}.1"
    ] * 2
    assert "aq: artifact: out/one.txt, 4 bytes\n" in await harness.log(job_id)


async def test_failed_run_uploads_its_artifacts(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit(
            "echo x > x", verify="echo bad > report.txt; exit 1", artifacts=["report.txt"]
        )
        ended = await harness.wait_until_idle(job_id)
        assert (ended["stage"], ended["result"]) == ("failed", "verify_failed")
    assert await left(harness, job_id) == {"report.txt": b"bad\n"}


async def test_file_ignored_by_git_can_be_an_artifact(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        body = "echo report > .gitignore; echo hello > hello.txt; echo kept > report"
        job_id = await harness.submit(body, artifacts=["report"])
        done = await harness.wait_until_idle(job_id)
        assert done["result"] == "ok"
    assert await left(harness, job_id) == {"report": b"kept\n"}


async def test_files_outside_the_worktree_are_not_uploaded(harness: FactoryHarness) -> None:
    outside = harness.folder / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("root")
    async with harness.factory():
        body = f"mkdir out; ln -s {outside}/passwd out/link; ln -s {outside} out/all; touch out/x"
        job_id = await harness.submit(body, repo=None, ship="none", artifacts=["out", "none/*.xml"])
        await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert await left(harness, job_id) == {"out/x": b""}
    assert "artifact: out/link is skipped: it is a link" in log
    assert "artifact: out/all is skipped: it is a link" in log
    assert "artifact: nothing matches none/*.xml" in log


async def test_factory_secret_is_redacted_from_artifacts(harness: FactoryHarness) -> None:
    async with harness.factory(environ=ENVIRON, env=("DEPLOY_TOKEN",)):
        body = (
            'echo "token: $DEPLOY_TOKEN" > out.txt; printf "\\0$DEPLOY_TOKEN" > out.bin;'
            ' touch "$DEPLOY_TOKEN"'
        )
        job_id = await harness.submit(
            body, repo=None, ship="none", env=["DEPLOY_TOKEN"], artifacts=["*"]
        )
        done = await harness.wait_until_idle(job_id)
        assert done["result"] == "ok", done["reason"]
        log = await harness.log(job_id)
    assert await left(harness, job_id) == {"out.txt": b"token: [redacted]\n"}
    assert "artifact: out.bin is skipped: it seems to contain a secret" in log
    assert "out.txt, 18 bytes; secrets were redacted" in log
    events = (await harness.api.get(f"/jobs/{job_id}/events")).text
    assert SECRET not in log + events


async def test_artifacts_beyond_the_maximum_count_are_skipped_and_logged(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        body = "mkdir out; for i in $(seq 1000 1119); do echo $i > out/$i; done"
        job_id = await harness.submit(body, repo=None, ship="none", artifacts=["out"])
        await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert sorted(await left(harness, job_id)) == [f"out/{number}" for number in range(1000, 1100)]
    assert "artifact: 20 files are skipped: at most 100 are uploaded" in log


async def test_released_job_uploads_no_artifacts(harness: FactoryHarness) -> None:
    async with harness.factory() as agent:
        job_id = await harness.submit("echo x > x; echo under way; sleep 600", artifacts=["x"])
        await harness.wait_for_log(job_id, "under way")
        agent.drain()
        agent.drain()
        await harness.wait_until_idle(job_id, at="queued")
    assert await left(harness, job_id) == {}


async def test_job_whose_only_artifacts_were_not_uploaded_is_requeued(
    forks: ForkServer, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    body = f"echo begun; until [ -e {sign} ]; do sleep 0.05; done; echo kept > report"
    async with (
        a_process_harness(forks, tmp_path, settings={}) as harness,
        harness.factory() as agent,
    ):
        job_id = await harness.submit(body, repo=None, ship="none", artifacts=["report"])
        await harness.wait_for_log(job_id, "begun\n")
        async with harness.coordinator.killed():
            sign.touch()
            log = harness.data_dir().log_file(f"{job_id}.1")
            await until(lambda: b"phase: artifacts" in log.read_bytes())
            agent.drain()
            agent.drain()
            await until(lambda: b"artifacts are missing" in log.read_bytes())
        handed = await harness.wait_until_idle(job_id, at="queued")
        assert "the artifacts are its only result, and were not uploaded" in handed["reason"]


async def test_artifact_upload_waits_for_the_coordinator_during_an_outage(
    forks: ForkServer, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    body = f"echo begun; until [ -e {sign} ]; do sleep 0.05; done; echo kept > report"
    async with (
        a_process_harness(forks, tmp_path, settings={}) as harness,
        harness.factory() as agent,
    ):
        job_id = await harness.submit(body, repo=None, ship="none", artifacts=["report"])
        await harness.wait_for_log(job_id, "begun\n")
        async with harness.coordinator.killed():
            sign.touch()
            log = harness.data_dir().log_file(f"{job_id}.1")
            await until(lambda: b"phase: artifacts" in log.read_bytes())
            assert job_id in agent.running_jobs, "it does not end without what it leaves"
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), done["reason"]
        assert await left(harness, job_id) == {"report": b"kept\n"}
        assert len(await artifact_events(harness, job_id)) == 1
