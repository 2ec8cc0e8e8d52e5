"""A roadmap on a real factory: its children ship into the repo, then it is accepted as a whole."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.factory.local_fleet import Yard, a_yard
from tests.support.polling import until


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with a_yard(tmp_path) as made:
        yield made


def a_child(yard: Yard, name: str, body: str, **manifest: object) -> dict[str, object]:
    usual = {"engine": "command", "repo": str(yard.remote.path), "verify": "true"}
    return {"name": name, "body": body, "shipPolicy": "auto", **usual, **manifest}


async def test_a_roadmap_is_accepted_on_what_its_children_have_shipped(yard: Yard) -> None:
    children = [
        a_child(yard, "one", "echo one > one.txt", phase=1),
        a_child(yard, "two", "cat one.txt > two.txt", phase=2),
    ]
    async with yard.factory():
        job_id = await yard.submit(
            "# The roadmap\n",
            name="roadmap",
            kind="composite",
            children=children,
            reviewPolicy="auto",
            verify="cat one.txt two.txt && touch left-behind",
        )
        job = await yard.rests(job_id, at="shipped")
    assert (job["result"], job["reason"]) == ("ok", None)
    assert yard.remote.text("main", "two.txt") == "one"
    (run,) = await yard.runs(job_id)
    assert (run["step"], run["verify"]["passed"]) == ("ship", True)
    assert "one\none\n" in await yard.log(job_id)
    assert "checkpoint" not in await yard.story(job_id)


async def test_an_acceptance_that_fails_leaves_the_roadmap_to_a_person(yard: Yard) -> None:
    child = a_child(yard, "one", "echo one > one.txt")
    async with yard.factory():
        job_id = await yard.submit(
            "# The roadmap\n", kind="composite", children=[child], verify="cat missing.txt"
        )

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        job = await yard.job(job_id)
        assert (job["stage"], job["result"]) == ("testing", "verify_failed")
        assert "missing.txt" in job["reason"]
        yard.remote.commit({"missing.txt": "Here.\n"})
        await yard.act(job_id, "ship")
        assert (await yard.rests(job_id, at="shipped"))["reason"] is None
