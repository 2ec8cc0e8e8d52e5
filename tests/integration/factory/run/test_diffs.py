"""Diffs of runs: created by a real factory, stored, and read over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from gigafactory.factory.git.diff import TEXT_BYTES_MAX
from tests.services.aq import Shell
from tests.services.few_tools import search_path
from tests.support.factory.local_fleet import FactoryHarness, LocalHarness, a_local_harness

SECRET = "correct-horse-battery"
ENVIRON = {"PATH": search_path(), "DEPLOY_TOKEN": SECRET}
AS_JSON = {"accept": "application/json"}
CHANGES = (
    "printf 'Notes, and more.\\n' > README.md; printf '\\000\\001' > blob.bin; mkdir d; touch d/e"
)


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def asked(harness: FactoryHarness, job_id: str, **headers: str) -> httpx.Response:
    return await harness.api.get(f"/jobs/{job_id}/diff", headers={"accept": "*/*", **headers})


async def read_diff(harness: FactoryHarness, job_id: str) -> dict[str, Any]:
    answer = await asked(harness, job_id, **AS_JSON)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


def shell_of(harness: FactoryHarness, folder: Path, token: str) -> Shell:
    settings = {
        "AQ_FLEET_API": harness.server.url,
        "AQ_FLEET_TOKEN": token,
        "AQ_PRODUCT_ID": "notes",
    }
    return Shell(folder, settings)


async def test_diff_lists_each_file_and_the_commit_to_review(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit(CHANGES)
        done = await harness.wait_until_idle(job_id)
    diff = await read_diff(harness, job_id)
    assert (diff["base"], diff["commit"]) == (harness.start, done["checkpoint"]["commit"])
    files = {file["path"]: file for file in diff["files"]}
    assert list(files) == ["README.md", "blob.bin", "d/e"]
    assert (files["README.md"]["added"], files["README.md"]["deleted"]) == (1, 1)
    assert (files["blob.bin"]["binary"], files["d/e"]["change"]) == (True, "added")
    assert (diff["filesChanged"], diff["linesAdded"], diff["linesDeleted"]) == (3, 1, 1)
    text = await asked(harness, job_id)
    assert text.headers["content-type"] == "text/x-diff; charset=utf-8"
    assert text.text == diff["text"]
    assert "-Notes.\n+Notes, and more.\n" in text.text
    assert "Binary files /dev/null and b/blob.bin differ\n" in text.text
    assert not diff["truncated"]
    listed = (await harness.api.get(f"/jobs/{job_id}/artifacts")).json()["artifacts"]
    assert listed == [], "it is no file that the job has left"


async def test_diff_of_a_newer_run_replaces_the_older_one(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo line >> page.txt", reviewPolicy="manual")
        first = await harness.wait_until_idle(job_id, at="review")
        assert (await read_diff(harness, job_id))["commit"] == first["checkpoint"]["commit"]
        await harness.act(job_id, "request-changes", reason="more")
        second = await harness.wait_until_idle(job_id, at="review")
    diff = await read_diff(harness, job_id)
    assert diff["commit"] == second["checkpoint"]["commit"] != first["checkpoint"]["commit"]
    assert (diff["base"], diff["linesAdded"]) == (harness.start, 2), "against where it all began"


async def test_diff_of_a_scope_violation_is_available_for_review(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo x > x", allowedScope=["docs/**"])
        assert (await harness.wait_until_idle(job_id))["result"] == "scope_violation"
    assert "+x\n" in (await asked(harness, job_id)).text


async def test_diff_contains_no_secret(harness: FactoryHarness) -> None:
    harness.remote.commit({"old.txt": f"password: {SECRET}\n"})
    async with harness.factory(environ=ENVIRON):
        job_id = await harness.submit("rm old.txt")
        assert (await harness.wait_until_idle(job_id))["result"] == "ok", await harness.log(job_id)
    diff = await read_diff(harness, job_id)
    assert [file["path"] for file in diff["files"]] == ["old.txt"]
    assert SECRET not in str(diff)
    assert "-password: " in diff["text"]


async def test_long_diff_is_truncated_with_a_notice_and_full_counts(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("seq 200000 > numbers.txt; echo z > z")
        assert (await harness.wait_until_idle(job_id))["result"] == "ok"
    diff = await read_diff(harness, job_id)
    assert diff["truncated"]
    assert (diff["filesChanged"], diff["linesAdded"]) == (2, 200_001)
    assert TEXT_BYTES_MAX - 100 < len(diff["text"]) < TEXT_BYTES_MAX + 200
    last = diff["text"].splitlines()[-1]
    assert last == (
        "\\ The diff is cut here, in file 1."
        " In all: 2 files changed, 200001 lines added, 0 deleted."
    )


async def test_missing_diff_explains_why(harness: FactoryHarness) -> None:
    waiting = await harness.submit("echo x > x")
    answer = await asked(harness, waiting)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "the job is queued" in answer.json()["detail"]
    async with harness.factory():
        empty = await harness.submit("true")
        plain = await harness.submit("true", repo=None, ship="none")
        for job_id in (waiting, empty, plain):
            await harness.wait_until_idle(job_id)
    assert "changed anything" in (await asked(harness, empty)).json()["detail"]
    assert "has no repo" in (await asked(harness, plain)).json()["detail"]
    assert (await asked(harness, "nothing")).status_code == 404


async def test_diff_command_escapes_terminal_control_characters(
    harness: LocalHarness, tmp_path: Path
) -> None:
    async with harness.factory():
        turned = "\u202e"
        body = f"printf 'a \\033]52;c;aGk=\\007 {turned} b\\n' > trick.txt"
        job_id = await harness.submit(body)
        done = await harness.wait_until_idle(job_id)
    token = await harness.api_server.token("ann")
    shell = shell_of(harness, tmp_path, token)
    plain = await asyncio.to_thread(shell.aq, "diff", job_id)
    assert plain.code == 0, plain.err
    assert "+a <U+001B>]52;c;aGk=<U+0007> <U+202E> b" in plain.out
    assert "\x1b" not in plain.out
    assert f"commit {done['checkpoint']['commit']}" in plain.err
    stat = await asyncio.to_thread(shell.aq, "diff", job_id, "--stat")
    assert stat.out.split() == ["trick.txt", "1", "+"]
    raw = await asyncio.to_thread(shell.aq, "diff", job_id, "--raw")
    assert raw.out == (await asked(harness, job_id)).text
    result = await asyncio.to_thread(shell.aq, "diff", job_id, "--json")
    assert result.json() == await read_diff(harness, job_id)
    assert (await asyncio.to_thread(shell.aq, "diff", "nothing")).code == 3
