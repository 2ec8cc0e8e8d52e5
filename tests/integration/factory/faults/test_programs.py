"""Engines, setups and verifies that misbehave: each has one result class and a helpful reason."""

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from gigafactory.engines.catalogue import load_engines
from gigafactory.factory.reporting.log_sender import RunLog
from tests.services.few_tools import search_path
from tests.support.factory.fake_tools import agent
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until

LEAVES_BEHIND = "setsid sh -c 'trap \"\" TERM INT HUP; : {}; sleep 600' >/dev/null 2>&1 &"


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def alive(word: str) -> bool:
    """Return whether the command line of another process contains a word."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and word in (entry / "cmdline").read_text("utf-8", "replace"):
                return int(entry.name) != os.getpid()
        except OSError:
            continue
    return False


def with_claude(folder: Path, flags: str) -> dict[str, str]:
    """Return an environment with a `claude` program that supports these flags."""
    agent(folder, "claude", version="echo '9.9.9 (Claude Code)'", flags=f"echo '{flags}'")
    return {"PATH": f"{folder}:{search_path()}"}


async def engine(harness: FactoryHarness, name: str) -> dict[str, Any]:
    """Return the factory's engine as the fleet reports it."""
    data = (await harness.api.get("/factories")).json()
    [factory] = data["factories"]
    found: dict[str, Any] = factory["engines"][name]
    return found


async def test_engine_with_changed_flags_is_unavailable_at_startup(
    harness: FactoryHarness,
) -> None:
    async with harness.factory(environ=with_claude(harness.folder / "bin", "--nothing-we-know")):
        found = await engine(harness, "claude")
    assert "--print" in found["unavailable"]


async def test_engine_removed_before_its_run_releases_the_job(
    harness: FactoryHarness,
) -> None:
    environ = with_claude(harness.folder / "bin", " ".join(load_engines()["claude"].flags))
    async with harness.factory(environ=environ):
        assert (await engine(harness, "claude"))["unavailable"] is None
        (harness.folder / "bin" / "claude").unlink()
        job_id = await harness.submit("write a poem", engine="claude")

        async def back() -> bool:
            return "released" in await harness.event_types(job_id)

        await until(back)
        job = await harness.job(job_id)
    assert (job["stage"], job["result"], job["attempts"]) == ("queued", "engine_unavailable", 0)
    assert "claude" in job["reason"]


async def test_unprintable_engine_output_is_logged_unchanged(harness: FactoryHarness) -> None:
    garbage = r"printf '\377\376\001\033]52;c;eA==\007 <\n{usage: [1, {\n'; touch x"
    async with harness.factory():
        job = await harness.wait_until_idle(await harness.submit(garbage))
        assert job["result"] == "ok", job["reason"]
        log = await harness.log(job["id"])
    assert "\x01\x1b]52;c;eA==\x07 <\n" in log
    assert "{usage: [1, {\n" in log


def test_log_beyond_its_limit_is_cut_off_with_a_notice(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = RunLog(file, 1000)
    for _ in range(1000):
        log.write(b"x" * 99 + b"\n")
    log.close()
    kept = (b"x" * 99 + b"\n") * 10
    assert file.read_bytes() == kept + b"\n[the log ends here: it has 1000 bytes]\n"


async def test_run_that_prints_one_very_long_line_succeeds(harness: FactoryHarness) -> None:
    async with harness.factory():
        flood = "head -c 30000000 /dev/zero | tr '\\0' x; echo; touch x"
        job = await harness.wait_until_idle(await harness.submit(flood))
        assert job["result"] == "ok", job["reason"]


async def test_background_processes_of_an_engine_end_with_its_run(harness: FactoryHarness) -> None:
    word = uuid.uuid4().hex
    async with harness.factory():
        job = await harness.wait_until_idle(
            await harness.submit(LEAVES_BEHIND.format(word) + " touch x")
        )
        assert job["result"] == "ok", job["reason"]
        assert not alive(word)


async def test_cancelled_run_leaves_no_process_alive(harness: FactoryHarness) -> None:
    word = uuid.uuid4().hex
    async with harness.factory() as factory:
        job_id = await harness.submit(LEAVES_BEHIND.format(word) + " echo begun; sleep 600")
        await harness.wait_for_log(job_id, "begun\n")
        assert alive(word)
        await harness.act(job_id, "cancel")
        await until(lambda: not factory.running_jobs)
        assert not alive(word)


async def test_failed_setup_quotes_its_output_in_the_reason(harness: FactoryHarness) -> None:
    async with harness.factory():
        job = await harness.wait_until_idle(
            await harness.submit("touch x", setup="echo no such package; exit 4")
        )
    assert (job["stage"], job["result"]) == ("failed", "setup_failed")
    assert "exited with 4: no such package" in job["reason"]


async def test_setup_timeout_names_the_command_and_the_setting(harness: FactoryHarness) -> None:
    async with harness.factory(setup_timeout=1.0):
        job = await harness.wait_until_idle(await harness.submit("touch x", setup="sleep 600"))
    assert (job["stage"], job["result"]) == ("failed", "timeout")
    assert job["reason"] == "setup took longer than 1 s (factory.setup-timeout): `sleep 600`"


async def test_verify_timeout_names_the_command_and_keeps_the_work(harness: FactoryHarness) -> None:
    async with harness.factory(verify_timeout=1.0):
        job = await harness.wait_until_idle(
            await harness.submit("echo kept > x", verify="sleep 600")
        )
    assert (job["stage"], job["result"]) == ("failed", "timeout")
    assert job["reason"] == "verify took longer than 1 s (factory.verify-timeout): `sleep 600`"
    assert harness.remote.text(job["checkpoint"]["commit"], "x") == "kept"
