"""Jobs in the sandbox of a real factory: temporary files, network and refusals."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.core.data_dir import make_private_folder, temp_folder
from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.run import run_registry
from tests.support.factory.local_fleet import FactoryHarness, LocalHarness, a_local_harness
from tests.support.factory.real_sandbox import a_sandbox, search_path
from tests.support.factory.scripted_agent import DONE, scripted_agent
from tests.support.polling import until

# The first test on a machine downloads bubblewrap.
pytestmark = pytest.mark.timeout(600)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

PYTHON = os.path.realpath(sys.executable)
FETCH = """
cat > fetch.py <<'END'
import urllib.error, urllib.request
for url in {urls}:
    try:
        print("heard", urllib.request.urlopen(url, timeout=30).read().decode())
    except urllib.error.HTTPError as refused:
        print("refused", refused.code)
END
{python} -I -S fetch.py
"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def confining(tmp_path: Path, policy: Policy) -> Mapping[str, str]:
    """Return the environment of a factory with a sandbox; skip the test if no sandbox works."""
    await a_sandbox(tmp_path, minimum=policy)
    return {"PATH": search_path()}


def is_there(path: Path) -> bool:
    return path.exists()


def lines_after(log: str, word: str) -> list[str]:
    return [line.partition(" ")[2] for line in log.splitlines() if line.startswith(f"{word} ")]


@pytest.mark.parametrize(
    "policy", ["none", *(pytest.param(each, marks=on_linux) for each in ("workspace", "strict"))]
)
async def test_temporary_folder_lasts_from_setup_to_verify_and_is_then_removed(
    harness: FactoryHarness, tmp_path: Path, policy: Policy
) -> None:
    environ = None if policy == "none" else await confining(tmp_path, policy)
    async with harness.factory(sandbox=policy, environ=environ):
        job_id = await harness.submit(
            'echo "tmp $TMPDIR"; cat "$TMPDIR/from-setup"; echo > work.txt',
            setup='echo "heard hello" > "$TMPDIR/from-setup"',
            verify='test -s "$TMPDIR/from-setup"',
        )
        done = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
        assert done["result"] == "ok", log
        assert lines_after(log, "heard") == ["hello"]
        [folder] = lines_after(log, "tmp")
        assert len(folder) < 80, "a socket in it has a path that fits"

        async def gone() -> bool:
            return not is_there(Path(folder))

        await until(gone, within_s=60)


async def test_restart_removes_temporary_files_of_a_dead_run(
    harness: FactoryHarness,
) -> None:
    data_dir = harness.data_dir()
    data_dir.create()
    mark = new_mark()
    left = temp_folder(mark)
    make_private_folder(left / "deep")
    run = run_registry.RegisteredRun(
        run_id="r1", job_id="j1", epoch=1, mark=mark, repo=None, tmp=str(left)
    )
    run_registry.register(data_dir, run)
    async with harness.factory():
        assert not left.exists()
        assert run_registry.load_runs(data_dir) == []


@asynccontextmanager
async def a_site(said: str) -> AsyncIterator[int]:
    """Serve a fixed text over HTTP on loopback and yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{said}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@on_linux
async def test_strict_job_reaches_listed_hosts_and_logs_blocked_ones(
    harness: FactoryHarness, tmp_path: Path
) -> None:
    environ = await confining(tmp_path, "workspace")
    async with a_site("hello") as port:
        listed = (f"127.0.0.1:{port}",)
        urls = [f"http://127.0.0.1:{port}/", "http://other.example/"]
        async with harness.factory(sandbox="workspace", environ=environ, allow_hosts=listed):
            body = FETCH.format(urls=urls, python=PYTHON)
            job_id = await harness.submit(body, sandbox="strict")
            done = await harness.wait_until_idle(job_id)
            log = await harness.log(job_id)
    assert done["result"] == "ok", log
    assert lines_after(log, "heard") == ["hello"]
    assert lines_after(log, "refused") == ["403"]
    assert log.count("aq: the sandbox blocks other.example:80") == 1


@on_linux
async def test_sandboxed_job_plants_nothing_that_the_factorys_git_runs(
    harness: FactoryHarness, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    environ = await confining(tmp_path, "workspace")
    body = f"""
    echo work > work.txt
    git config core.fsmonitor 'touch {planted}'
    git config filter.x.clean 'touch {planted}'
    echo '* filter=x' > .gitattributes
    git config core.hooksPath "$PWD/.hooks"; hooks="$PWD/.hooks"; mkdir -p "$hooks"
    for name in pre-commit post-commit pre-push post-checkout reference-transaction; do
        printf '#!/bin/sh\\ntouch {planted}\\n' > "$hooks/$name"; chmod +x "$hooks/$name"
    done
    """
    async with harness.factory(sandbox="workspace", environ=environ):
        job_id = await harness.submit(body)
        done = await harness.wait_until_idle(job_id)
        assert done["result"] == "ok", await harness.log(job_id)
    assert harness.remote.text(f"aq/job/{job_id}", "work.txt") == "work"
    assert not planted.exists()


@on_linux
async def test_engine_settings_of_a_repo_are_hidden_from_the_engine(
    harness: FactoryHarness, tmp_path: Path
) -> None:
    environ = await confining(tmp_path, "workspace")
    tools = tmp_path / "tools"
    scripted_agent(
        tools,
        "ls -A .pi | sed 's/^/found /'",
        "echo mine > .pi/settings.json || echo refused by the sandbox",
        "echo work > work.txt",
        DONE,
    )
    harness.remote.commit({".pi/settings.json": "orders", "notes/.keep": ""})
    there = "grep -q orders .pi/settings.json"
    path = {"PATH": f"{tools}:{environ['PATH']}"}
    async with harness.factory(sandbox="workspace", environ=path):
        done = await harness.wait_until_idle(
            await harness.submit("x", engine="pi", setup=there, verify=there)
        )
        log = await harness.log(done["id"])
        assert done["result"] == "ok", log
        assert (lines_after(log, "found"), lines_after(log, "refused")) == ([], ["by the sandbox"])
        assert harness.remote.text(done["checkpoint"]["commit"], ".pi/settings.json") == "orders"
        link = harness.remote.path.with_suffix(".person") / ".pi"
        shutil.rmtree(link)
        link.symlink_to("/proc/self/cwd/notes")
        harness.remote.commit({})
        refused = await harness.wait_until_idle(await harness.submit("x", engine="pi"))
    assert (refused["result"], lines_after(await harness.log(refused["id"]), "found")) == (
        "setup_failed",
        [],
    )
    assert ".pi of the repo is a link" in refused["reason"]


async def test_job_requiring_an_unavailable_sandbox_stays_queued(harness: FactoryHarness) -> None:
    async with harness.factory():
        asked = await harness.submit("true", sandbox="strict")
        other = await harness.submit("echo > work.txt")
        await harness.wait_until_idle(other)
        assert (await harness.job(asked))["stage"] == "queued"
        reasons = (await harness.api.get(f"/jobs/{asked}/explain")).text
        assert "it cannot run a job in sandbox strict" in reasons


async def test_without_a_sandbox_no_yolo_job_is_taken_unless_the_operator_says_so(
    harness: FactoryHarness,
) -> None:
    async with harness.factory(sandbox="none"):
        job_id = await harness.submit("touch x", yolo=True)
        plain = await harness.wait_until_idle(await harness.submit("touch x"))
        assert plain["result"] == "ok", "other jobs are"
        result = (await harness.api.get(f"/jobs/{job_id}/explain")).text
        assert "it has no sandbox that works, so it takes no yolo job" in result
        assert "aq doctor" in result
        assert (await harness.job(job_id))["stage"] == "queued"
    async with harness.factory(sandbox="none", yolo_without_sandbox=True):
        assert (await harness.wait_until_idle(job_id))["result"] == "ok"
