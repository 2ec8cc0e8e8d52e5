"""A roadmap on a real factory: its children ship into the repo, then the roadmap is accepted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def a_child(harness: FactoryHarness, name: str, body: str, **manifest: object) -> dict[str, object]:
    usual = {"engine": "command", "repo": str(harness.remote.path), "verify": "true"}
    return {"name": name, "body": body, "shipPolicy": "auto", **usual, **manifest}


async def test_roadmap_is_accepted_on_the_shipped_work_of_its_children(
    harness: FactoryHarness,
) -> None:
    children = [
        a_child(harness, "one", "echo one > one.txt", phase=1),
        a_child(harness, "two", "cat one.txt > two.txt", phase=2),
    ]
    async with harness.factory():
        job_id = await harness.submit(
            "# The roadmap\n",
            name="roadmap",
            kind="composite",
            children=children,
            reviewPolicy="auto",
            verify="cat one.txt two.txt && touch left-behind",
        )
        job = await harness.wait_until_idle(job_id, at="shipped")
    assert (job["result"], job["reason"]) == ("ok", None)
    assert harness.remote.text("main", "two.txt") == "one"
    (run,) = await harness.runs(job_id)
    assert (run["step"], run["verify"]["passed"]) == ("ship", True)
    assert "one\none\n" in await harness.log(job_id)
    assert "checkpoint" not in await harness.event_types(job_id)


async def test_failed_acceptance_leaves_the_roadmap_in_testing(
    harness: FactoryHarness,
) -> None:
    child = a_child(harness, "one", "echo one > one.txt")
    async with harness.factory():
        job_id = await harness.submit(
            "# The roadmap\n", kind="composite", children=[child], verify="cat missing.txt"
        )

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        job = await harness.job(job_id)
        assert (job["stage"], job["result"]) == ("testing", "verify_failed")
        assert "missing.txt" in job["reason"]
        harness.remote.commit({"missing.txt": "Here.\n"})
        await harness.act(job_id, "ship")
        assert (await harness.wait_until_idle(job_id, at="shipped"))["reason"] is None
