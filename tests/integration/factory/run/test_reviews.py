"""Reviews of a real factory's work: permissions, records, and requests for changes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from gigafactory.domain.tenancy.access import Role
from tests.support.factory.local_fleet import LocalHarness, a_local_harness

PANEL = {"reviewers": ["ann", "bob", "cat"], "quorum": 2}
ADDS_WHAT_IT_IS_TOLD = "cat > told.txt; echo line >> page.txt"


class Panel:
    """Reviewers with their own tokens, and the fleet whose work they review."""

    def __init__(self, harness: LocalHarness, people: dict[str, httpx.AsyncClient]) -> None:
        self.harness = harness
        self._people = people

    async def work(self, **manifest: object) -> dict[str, Any]:
        """Submit a job as ann and return it when it is in review."""
        said = {
            "engine": "command",
            "command": ADDS_WHAT_IT_IS_TOLD,
            "repo": str(self.harness.remote.path),
            "reviewPolicy": PANEL,
        }
        asked = {"manifest": said | manifest, "body": "Write the page."}
        answer = await self._people["ann"].post("/jobs", json=asked)
        assert answer.status_code == 201, answer.text
        return await self.harness.wait_until_idle(answer.json()["id"], at="review")

    async def decides(self, name: str, job: dict[str, Any], decision: str, comment: str) -> int:
        """Decide on the job's current commit; return the status of the response."""
        wish = {"decision": decision, "comment": comment, "commit": job["checkpoint"]["commit"]}
        answer = await self._people[name].post(f"/jobs/{job['id']}/review", json=wish)
        return answer.status_code

    async def events(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events of a job."""
        response = await self.harness.api.get(f"/jobs/{job['id']}/events")
        events: list[dict[str, Any]] = response.json()["events"]
        return events


@pytest_asyncio.fixture
async def panel(tmp_path: Path) -> AsyncIterator[Panel]:
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(a_local_harness(tmp_path))
        people = {}
        for name in ("ann", "bob", "cat", "eve"):
            token = await harness.api_server.token(name, Role.REVIEWER, ["notes"])
            people[name] = await stack.enter_async_context(harness.api_server.client(token))
        token = await harness.api_server.token("vic", Role.VIEWER, ["notes"])
        people["vic"] = await stack.enter_async_context(harness.api_server.client(token))
        await stack.enter_async_context(harness.factory())
        yield Panel(harness, people)


async def test_review_passes_at_its_quorum_with_each_reviewer_counted_once(
    panel: Panel,
) -> None:
    job = await panel.work()
    assert await panel.decides("bob", job, "approve", "reads well") == 200
    assert await panel.decides("bob", job, "approve", "still does") == 200
    assert (await panel.harness.job(job["id"]))["stage"] == "review"
    assert await panel.decides("cat", job, "approve", "and runs") == 200
    assert (await panel.harness.job(job["id"]))["stage"] == "testing"
    commit = job["checkpoint"]["commit"]
    items = [event for event in await panel.events(job) if event["type"] == "review_submitted"]
    assert [event["actor"] for event in items] == ["user:bob", "user:bob", "user:cat"]
    assert [event["data"]["comment"] for event in items] == ["reads well", "still does", "and runs"]
    assert {event["data"]["commit"] for event in items} == {commit}
    assert all(event["at"] for event in items)
    [approved] = [event for event in await panel.events(job) if event["type"] == "approved"]
    assert approved["data"] == {"by": ["user:bob", "user:cat"], "commit": commit}


async def test_decision_without_permission_is_rejected_and_not_recorded(panel: Panel) -> None:
    job = await panel.work()
    before = await panel.events(job)
    for name in ("eve", "vic"):
        for decision in ("approve", "reject", "request-changes"):
            assert await panel.decides(name, job, decision, "because") == 403, (name, decision)
    assert await panel.decides("ann", job, "approve", "my own") == 403
    assert await panel.events(job) == before
    assert await panel.harness.job(job["id"]) == job


async def test_a_single_rejection_ends_the_job_despite_earlier_approvals(panel: Panel) -> None:
    job = await panel.work()
    assert await panel.decides("bob", job, "approve", "fine") == 200
    assert await panel.decides("cat", job, "reject", "the wrong page") == 200
    ended = await panel.harness.job(job["id"])
    assert (ended["stage"], ended["result"], ended["reason"]) == (
        "failed",
        "rejected",
        "the wrong page",
    )
    [result] = [event for event in await panel.events(job) if event["type"] == "rejected"]
    assert (result["actor"], result["data"]["reason"]) == ("user:cat", "the wrong page")


async def test_requested_changes_resume_from_the_reviewed_commit_with_the_comment(
    panel: Panel,
) -> None:
    job = await panel.work()
    remote, first = panel.harness.remote, job["checkpoint"]["commit"]
    assert await panel.decides("bob", job, "approve", "fine") == 200
    assert await panel.decides("cat", job, "request-changes", "two lines, please") == 200
    newer = await panel.harness.wait_until_idle(job["id"], at="review")
    second = newer["checkpoint"]["commit"]
    assert second != first
    assert f"from {first[:12]}" in await panel.harness.log(job["id"])
    assert remote.text(second, "page.txt") == "line\nline"
    assert "A reviewer asks for this change:\n\ntwo lines, please" in remote.text(
        second, "told.txt"
    )
    assert "two lines" not in remote.text(first, "told.txt")
    assert remote.commit_of(f"aq/job/{job['id']}") == second
    # Bob's decision names the older commit.
    assert await panel.decides("bob", job, "approve", "fine") == 409
    assert await panel.decides("cat", newer, "approve", "thanks") == 200
    assert (await panel.harness.job(job["id"]))["stage"] == "review"
    assert await panel.decides("bob", newer, "approve", "better") == 200
    assert (await panel.harness.job(job["id"]))["stage"] == "testing"


async def test_the_run_after_a_change_request_is_verified_again(panel: Panel) -> None:
    once = {"verify": "test $(wc -l < page.txt) = 1", "verifyRounds": 0, "retry": {"max": 0}}
    job = await panel.work(**once)
    assert await panel.decides("cat", job, "request-changes", "more") == 200
    queued = await panel.harness.wait_until_idle(job["id"], at="failed")
    assert queued["result"] == "verify_failed"
    assert [run["result"] for run in await panel.harness.runs(job["id"])] == ["ok", "verify_failed"]
