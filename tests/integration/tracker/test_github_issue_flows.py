"""Tickets as GitHub issues, on a stateful GitHub emulator."""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gigafactory.config.settings import ProductTrackerSettings as Told
from gigafactory.domain.tracker.webhook_delivery import signature
from tests.services.emulate import OWNER, TOKEN
from tests.services.items_server import Items
from tests.support.tracker_fleet import ENVIRON, SECRET, Fleet, a_fleet

pytestmark = pytest.mark.service


class Repo:
    """A repo as its owners use it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.slug = f"{OWNER}/notes-{uuid.uuid4().hex[:12]}"

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        answer = await self.http.request(method, f"/repos/{self.slug}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def file(self, title: str, *labels: str, **more: object) -> int:
        wish = {"title": title, "labels": list(labels), **more}
        number: int = (await self.ask("POST", "/issues", wish))["number"]
        return number

    async def issue(self, number: int) -> tuple[str, set[str]]:
        found = await self.ask("GET", f"/issues/{number}")
        return found["state"], {label["name"] for label in found["labels"]}

    async def openings(self, number: int) -> list[str]:
        found = await self.ask("GET", f"/issues/{number}/comments")
        return [comment["body"].split("\n")[0].split(".")[0] for comment in found]


@pytest_asyncio.fixture
async def repo(emulate: str) -> AsyncIterator[Repo]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=emulate, headers=headers, timeout=30) as http:
        made = Repo(http)
        name = made.slug.partition("/")[2]
        answer = await http.post("/user/repos", json={"name": name, "auto_init": True})
        assert answer.is_success, answer.text
        yield made


@pytest_asyncio.fixture
async def hub(items: Items, repo: Repo, emulate: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet whose product `web` has its tickets on GitHub."""
    place = Told(
        url=f"https://github.com/{repo.slug}",
        api=emulate,
        token_env="GITHUB_OF_TESTS",
        secret_env="TRACKER_SECRET",
    )
    ENVIRON["GITHUB_OF_TESTS"] = TOKEN
    async with a_fleet(items, tmp_path, others={"web": place}) as fleet:
        yield fleet


async def jobs(hub: Fleet) -> list[dict[str, Any]]:
    async with hub.server.client(product="web") as client:
        found: list[dict[str, Any]] = (await client.get("/jobs?sort=oldest")).json()["jobs"]
    return found


async def test_issue_becomes_a_job_and_follows_its_stages(hub: Fleet, repo: Repo) -> None:
    number = await repo.file("Say hello", "agent:run", "priority:high", body="In French.")
    await repo.file("Leave me alone", "bug")
    await hub.import_tickets()
    [job] = await jobs(hub)
    assert (job["title"], job["priority"]) == ("Say hello", "high")
    assert job["repo"] == repo.slug.partition("/")[2]
    await hub.update_tickets()
    assert await repo.issue(number) == ("open", {"agent:run", "priority:high", "fleet:queued"})
    async with hub.server.client(product="web") as client:
        body = {"manifest": {"name": "x"}, "body": "x"}
        assert (await client.post("/jobs", json=body)).status_code == 201
        await client.post(f"/jobs/{job['id']}/actions/cancel", json={"reason": "not now"})
        await hub.update_tickets()
        assert await repo.issue(number) == (
            "open",
            {"agent:run", "priority:high", "fleet:cancelled", "needs-triage"},
        )
        await client.post(f"/jobs/{job['id']}/actions/requeue", json={})
        await hub.update_tickets()
        assert await repo.issue(number) == ("open", {"agent:run", "priority:high", "fleet:queued"})
    assert await repo.openings(number) == ["Cancelled"]


async def test_shipped_job_closes_its_issue_as_completed(hub: Fleet, repo: Repo) -> None:
    from tests.support.api_server import a_worker

    number = await repo.file("Say hello", "agent:run")
    await hub.import_tickets()
    [job] = await jobs(hub)
    async with (
        a_worker(hub.server, "mac-2", products=["web"]) as worker,
        hub.server.client(product="web") as client,
    ):
        await worker.beat(capabilities=["os:mac", f"repo:{job['repo']}"])
        grant = await worker.granted()
        await worker.report(grant, stage="building")
        checkpoint = {"branch": "aq/job/x", "commit": "abc"}
        await worker.report(grant, stage="review", checkpoint=checkpoint)
        for action in ("approve", "ship"):
            await client.post(f"/jobs/{job['id']}/actions/{action}", json={"commit": "abc"})
        assert (await worker.report(await worker.granted(), stage="shipped")).status_code == 200
    await hub.update_tickets()
    await hub.update_tickets()
    assert await repo.openings(number) == [
        "Started on factory mac-2 with claude",
        "Done, and waiting for a review",
        "Done, and waiting to be shipped",
        "Shipped",
    ]
    found = await repo.ask("GET", f"/issues/{number}")
    assert (found["state"], found["state_reason"]) == ("closed", "completed")


async def test_github_webhook_imports_an_issue_once(hub: Fleet, repo: Repo) -> None:
    number = await repo.file("Say hello", "agent:run")
    issue = await repo.ask("GET", f"/issues/{number}")
    result = {"action": "labeled", "issue": issue, "repository": {"full_name": repo.slug}}
    body = json.dumps(result).encode()
    headers = {
        "x-hub-signature-256": signature(SECRET.encode(), body),
        "x-github-delivery": "72d3162e",
        "x-github-event": "issues",
    }
    async with hub.server.client("", product=None, **headers) as client:
        answer = await client.post("/tracker/webhook?product=web", content=body)
        again = await client.post("/tracker/webhook?product=web", content=body)
    assert (answer.status_code, again.status_code) == (202, 409)
    assert [job["title"] for job in await jobs(hub)] == ["Say hello"]


async def test_issue_is_found_by_its_number(hub: Fleet, repo: Repo) -> None:
    number = await repo.file("Say hello")
    async with hub.server.client(product="web") as client:
        for written in (str(number), f"#{number}", f"{repo.slug}#{number}"):
            answer = await client.post("/tracker/ingest", json={"itemId": written})
            assert answer.status_code in {200, 201}, answer.text
        none = await client.post("/tracker/ingest", json={"itemId": "9999"})
    assert (len(await jobs(hub)), none.status_code) == (1, 404)
