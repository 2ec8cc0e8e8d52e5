"""What a run has changed can be looked at: made by a real factory, kept, and read over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from gigafactory.factory.git.diff import TEXT_BYTES_MAX
from tests.services.aq import Shell
from tests.services.few_tools import search_path
from tests.support.factory.local_fleet import Yard, YardHere, a_yard

SECRET = "correct-horse-battery"
ENVIRON = {"PATH": search_path(), "DEPLOY_TOKEN": SECRET}
AS_JSON = {"accept": "application/json"}
CHANGES = (
    "printf 'Notes, and more.\\n' > README.md; printf '\\000\\001' > blob.bin; mkdir d; touch d/e"
)


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[YardHere]:
    async with a_yard(tmp_path) as made:
        yield made


async def asked(yard: Yard, job_id: str, **headers: str) -> httpx.Response:
    return await yard.people.get(f"/jobs/{job_id}/diff", headers={"accept": "*/*", **headers})


async def shown(yard: Yard, job_id: str) -> dict[str, Any]:
    answer = await asked(yard, job_id, **AS_JSON)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def shell_of(yard: Yard, folder: Path, token: str) -> Shell:
    settings = {"AQ_FLEET_API": yard.server.url, "AQ_FLEET_TOKEN": token, "AQ_PRODUCT_ID": "notes"}
    return Shell(folder, settings)


async def test_a_diff_shows_each_file_and_names_the_commit_to_decide_on(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit(CHANGES)
        done = await yard.rests(job_id)
    diff = await shown(yard, job_id)
    assert (diff["base"], diff["commit"]) == (yard.start, done["checkpoint"]["commit"])
    files = {file["path"]: file for file in diff["files"]}
    assert list(files) == ["README.md", "blob.bin", "d/e"]
    assert (files["README.md"]["added"], files["README.md"]["deleted"]) == (1, 1)
    assert (files["blob.bin"]["binary"], files["d/e"]["change"]) == (True, "added")
    assert (diff["filesChanged"], diff["linesAdded"], diff["linesDeleted"]) == (3, 1, 1)
    text = await asked(yard, job_id)
    assert text.headers["content-type"] == "text/x-diff; charset=utf-8"
    assert text.text == diff["text"]
    assert "-Notes.\n+Notes, and more.\n" in text.text
    assert "Binary files /dev/null and b/blob.bin differ\n" in text.text
    assert not diff["truncated"]
    listed = (await yard.people.get(f"/jobs/{job_id}/artifacts")).json()["artifacts"]
    assert listed == [], "it is no file that the job has left"


async def test_a_newer_run_s_diff_takes_the_place_of_the_older_one(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo line >> page.txt", reviewPolicy="manual")
        first = await yard.rests(job_id, at="review")
        assert (await shown(yard, job_id))["commit"] == first["checkpoint"]["commit"]
        await yard.act(job_id, "request-changes", reason="more")
        second = await yard.rests(job_id, at="review")
    diff = await shown(yard, job_id)
    assert diff["commit"] == second["checkpoint"]["commit"] != first["checkpoint"]["commit"]
    assert (diff["base"], diff["linesAdded"]) == (yard.start, 2), "against where it all began"


async def test_work_that_left_its_scope_can_be_looked_at_before_it_is_let_pass(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo x > x", allowedScope=["docs/**"])
        assert (await yard.rests(job_id))["result"] == "scope_violation"
    assert "+x\n" in (await asked(yard, job_id)).text


async def test_what_is_secret_is_not_in_it(yard: Yard) -> None:
    yard.remote.commit({"old.txt": f"password: {SECRET}\n"})
    async with yard.factory(environ=ENVIRON):
        job_id = await yard.submit("rm old.txt")
        assert (await yard.rests(job_id))["result"] == "ok", await yard.log(job_id)
    diff = await shown(yard, job_id)
    assert [file["path"] for file in diff["files"]] == ["old.txt"]
    assert SECRET not in str(diff)
    assert "-password: " in diff["text"]


async def test_a_long_diff_is_cut_with_a_mark_and_counted_whole(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("seq 200000 > numbers.txt; echo z > z")
        assert (await yard.rests(job_id))["result"] == "ok"
    diff = await shown(yard, job_id)
    assert diff["truncated"]
    assert (diff["filesChanged"], diff["linesAdded"]) == (2, 200_001)
    assert TEXT_BYTES_MAX - 100 < len(diff["text"]) < TEXT_BYTES_MAX + 200
    last = diff["text"].splitlines()[-1]
    assert last == (
        "\\ The diff is cut here, in file 1."
        " In all: 2 files changed, 200001 lines added, 0 deleted."
    )


async def test_where_there_is_none_it_says_why(yard: Yard) -> None:
    waiting = await yard.submit("echo x > x")
    answer = await asked(yard, waiting)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "the job is queued" in answer.json()["detail"]
    async with yard.factory():
        empty = await yard.submit("true")
        plain = await yard.submit("true", repo=None, ship="none")
        for job_id in (waiting, empty, plain):
            await yard.rests(job_id)
    assert "changed anything" in (await asked(yard, empty)).json()["detail"]
    assert "has no repo" in (await asked(yard, plain)).json()["detail"]
    assert (await asked(yard, "nothing")).status_code == 404


async def test_a_person_reads_it_on_a_terminal_with_nothing_hidden(
    yard: YardHere, tmp_path: Path
) -> None:
    async with yard.factory():
        turned = "\u202e"
        body = f"printf 'a \\033]52;c;aGk=\\007 {turned} b\\n' > trick.txt"
        job_id = await yard.submit(body)
        done = await yard.rests(job_id)
    token = await yard.here.token("ann")
    shell = shell_of(yard, tmp_path, token)
    plain = await asyncio.to_thread(shell.aq, "diff", job_id)
    assert plain.code == 0, plain.err
    assert "+a <U+001B>]52;c;aGk=<U+0007> <U+202E> b" in plain.out
    assert "\x1b" not in plain.out
    assert f"commit {done['checkpoint']['commit']}" in plain.err
    stat = await asyncio.to_thread(shell.aq, "diff", job_id, "--stat")
    assert stat.out.split() == ["trick.txt", "1", "+"]
    raw = await asyncio.to_thread(shell.aq, "diff", job_id, "--raw")
    assert raw.out == (await asked(yard, job_id)).text
    told = await asyncio.to_thread(shell.aq, "diff", job_id, "--json")
    assert told.json() == await shown(yard, job_id)
    assert (await asyncio.to_thread(shell.aq, "diff", "nothing")).code == 3
