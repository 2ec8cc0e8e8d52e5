"""A planner on a real factory: its plan becomes the children of its composite."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def writes(plan: str) -> str:
    """Return a script that writes a plan into the plan file of the worktree."""
    return f"mkdir -p .aq && cat > .aq/plan.yaml <<'END'\n{plan}END\n"


def an_entry(harness: FactoryHarness, name: str, body: str, *more: str) -> str:
    lines = (
        f"- name: {name}",
        f"  body: {body}",
        "  engine: command",
        f"  repo: {harness.remote.path}",
        "  verify: 'true'",
        "  ship-policy: auto",
        *(f"  {line}" for line in more),
    )
    return "".join(f"{line}\n" for line in lines)


async def nodes(harness: FactoryHarness, job_id: str) -> list[dict[str, Any]]:
    data: dict[str, Any] = (await harness.api.get(f"/jobs/{job_id}/dag")).json()
    below: list[dict[str, Any]] = data["nodes"][1:]
    return below


async def test_planner_job_creates_the_children_of_a_roadmap(harness: FactoryHarness) -> None:
    plan = an_entry(harness, "one", "echo one > one.txt", "phase: 1")
    plan += an_entry(harness, "two", "cat one.txt > two.txt", "phase: 2", "deps: [one]")
    async with harness.factory():
        job_id = await harness.submit(
            writes(plan),
            name="roadmap",
            kind="composite",
            profile="planner",
            reviewPolicy="auto",
            shipPolicy="auto",
            verify="cat two.txt",
        )
        job = await harness.wait_until_idle(job_id, at="shipped")
    assert (job["result"], job["reason"]) == ("ok", None)
    assert harness.remote.text("main", "two.txt") == "one"
    planner, *children = await nodes(harness, job_id)
    assert [(node["name"], node["stage"]) for node in children] == [
        ("one", "shipped"),
        ("two", "shipped"),
    ]
    assert planner["planner"] is True
    story = await harness.event_types(planner["id"])
    assert [kind for kind in story if kind in {"artifact_added", "verify_passed", "shipped"}] == [
        *("artifact_added", "verify_passed", "shipped")
    ]
    assert not any("Plan" in line for line in harness.remote.log("main"))


async def test_plan_waits_for_review_before_children_are_created(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit(
            writes(an_entry(harness, "one", "echo one > one.txt")),
            kind="composite",
            profile="planner",
            verify=None,
        )
        (planner,) = await nodes(harness, job_id)
        await harness.wait_until_idle(planner["id"], at="review")
        matters = (await harness.api.get("/attention")).json()["attention"]
        assert [(m["kind"], m["subject"], m["reason"]) for m in matters] == [
            ("review", planner["id"], "its plan waits for approval")
        ]
        (file,) = (await harness.api.get(f"/jobs/{planner['id']}/artifacts")).json()["artifacts"]
        text = (await harness.api.get(f"/artifacts/{file['id']}")).text
        assert text.startswith("- name: one")
        assert len(await nodes(harness, job_id)) == 1
        await harness.act(planner["id"], "approve")
        await harness.wait_until_idle(job_id, at="shipped")


async def test_invalid_plan_fails_its_planner_and_creates_no_children(
    harness: FactoryHarness,
) -> None:
    plan = an_entry(harness, "one", "echo one > one.txt", "deps: [missing]", "colour: red")
    async with harness.factory():
        job_id = await harness.submit(
            writes(plan), kind="composite", profile="planner", verify=None, reviewPolicy="auto"
        )
        (planner,) = await nodes(harness, job_id)
        job = await harness.wait_until_idle(planner["id"], at="failed")
    assert job["result"] == "verify_failed"
    assert "plan[0].colour: found the unknown key 'colour'" in job["reason"]
    assert [node["name"] for node in await nodes(harness, job_id)] == [planner["name"]]
    assert (await harness.job(job_id))["stage"] == "building"


async def test_retried_planner_receives_the_faults_of_its_first_plan(
    harness: FactoryHarness,
) -> None:
    good = an_entry(harness, "one", "echo one > one.txt")
    bad = good.replace("  verify", "  deps: [nowhere]\n  verify")
    script = f"if grep -q nowhere; then\n{writes(good)}else\n{writes(bad)}fi\n"
    async with harness.factory():
        job_id = await harness.submit(
            "# The goal\n",
            kind="composite",
            profile="planner",
            command=script,
            retry={"max": 1, "backoff": "1s"},
            reviewPolicy="auto",
            shipPolicy="auto",
            verify=None,
        )

        async def done() -> bool:
            return bool((await harness.job(job_id))["stage"] == "shipped")

        await until(done, within_s=30)
    planner, child = await nodes(harness, job_id)
    assert (planner["stage"], child["name"]) == ("shipped", "one")
    runs = await harness.runs(planner["id"])
    assert [run["result"] for run in runs] == ["verify_failed", "ok"]
