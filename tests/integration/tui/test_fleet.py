"""The dashboard with a real coordinator."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.tenancy.access import Role
from gigafactory.tui.app import RefreshIntervals
from gigafactory.tui.model.fleet_source import FleetSource
from tests.services.aq import Shell
from tests.support.api_server import SYSTEM, Server, Worker, a_server
from tests.support.terminal import Terminal, watching

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Polling is off: only events cause a reload.
BY_EVENTS = RefreshIntervals(debounce=0.0, poll=600.0, retry=0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A coordinator on a free loopback port."""
    async with a_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@asynccontextmanager
async def dashboard(
    server: Server, product: str, *, role: Role = Role.ADMIN, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Terminal]:
    token = await server.token("ann", role, [product])
    client = AsyncClient(server.url, token, product=product)
    async with watching(FleetSource(client), size, intervals=BY_EVENTS) as terminal:
        yield terminal


async def submitted(admin: httpx.AsyncClient, name: str, **manifest: object) -> str:
    doc = {"manifest": {"name": name, **manifest}, "body": f"# Do {name}"}
    answer = await admin.post("/jobs", json=doc)
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def stage(admin: httpx.AsyncClient, job_id: str) -> str:
    found: str = (await admin.get(f"/jobs/{job_id}")).json()["stage"]
    return found


async def built(worker: Worker, stage: str = "review") -> dict[str, Any]:
    """Run the next job up to a stage and return its grant."""
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    checkpoint = {"branch": "aq/wip/x/1", "commit": "c0ffee"}
    answer = await worker.report(grant, stage=stage, result="ok", checkpoint=checkpoint)
    assert answer.status_code == 200, answer.text
    return grant


async def test_board_follows_a_job_from_submission_to_shipped(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    async with dashboard(server, product) as terminal:
        assert "No jobs yet." in terminal.text
        job_id = await submitted(admin, "fix-login")
        await terminal.sees("INBOX 1", "fix-login", "Do fix-login")
        await built(worker)
        await terminal.sees("REVIEW 1", "needs review", "2 Attention 1")
        await terminal.press("a")
        await terminal.sees("approve: fix-login is testing now", "TESTING 1", "ready to ship")
        await terminal.press("s", "y")
        await terminal.sees("fix-login will be shipped by a factory", "shipping requested")
        grant = await worker.granted()
        assert grant["step"] == "ship"
        await terminal.sees(f"ships on {worker.id}"[:16])
        await worker.report(grant, stage="shipped", result="ok")
        await terminal.sees("SHIPPED 1")
    assert await stage(admin, job_id) == "shipped"


async def test_reject_requeue_request_changes_and_cancel_keys_act_on_a_job(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    job_id = await submitted(admin, "fix-login")
    await built(worker)
    async with dashboard(server, product) as terminal:
        await terminal.sees("REVIEW 1")
        await terminal.press("x")
        await terminal.type("wrong door")
        await terminal.sees("reject: fix-login is failed now", "FAILED 1")
        assert (await admin.get(f"/jobs/{job_id}")).json()["reason"] == "wrong door"
        await terminal.press("r")
        await terminal.sees("requeue: fix-login is queued now", "INBOX 1")
        await built(worker)
        await terminal.sees("REVIEW 1")
        await terminal.press("e")
        await terminal.type("more tests")
        await terminal.sees("request-changes: fix-login is queued now")
        grant = await worker.granted()
        assert grant["followUps"] == ["more tests"]
        await terminal.sees(worker.id[:12])
        await terminal.press("c", "y")
        await terminal.sees("cancel: fix-login is cancelled now")
    assert await stage(admin, job_id) == "cancelled"


async def test_factory_is_drained_and_its_cooling_engine_is_shown(
    server: Server, worker: Worker, product: str
) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    await worker.beat(engines={"claude": {"seats": 4, "coolingUntil": until}})
    async with dashboard(server, product) as terminal:
        await terminal.press("3")
        await terminal.sees(worker.id[:18], "online", "rate-limited until")
        await terminal.press("d", "y")
        await terminal.sees("is draining: it takes no new jobs", "d undrain")
        assert (await server.coordinator.factories.get(SYSTEM, worker.id)).draining
        await terminal.press("d")
        await terminal.sees("takes jobs again", "d drain", gone="draining")


async def test_product_budget_is_paused_and_resumed(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    await admin.put(f"/budgets/{product}", json={"ceilingUsd": "10", "period": "day"})
    async with dashboard(server, product) as terminal:
        await terminal.press("5")
        await terminal.sees("$0 of $10")
        await terminal.press("p")
        await terminal.type("too expensive")
        await terminal.sees("p resume", "‖")
        assert (await admin.get(f"/budgets/{product}")).json()["paused"] is True
        await terminal.press("p")
        await terminal.sees("continues:", "p pause")
        assert (await admin.get(f"/budgets/{product}")).json()["paused"] is False


async def test_product_is_halted_and_resumed(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    async with dashboard(server, product) as terminal:
        await terminal.press("H")
        await terminal.type("bad release")
        await terminal.sees("is halted: no new job starts", "‖ halted")
        (halted,) = (await admin.get("/attention")).json()["attention"]
        assert (halted["kind"], halted["subject"]) == ("halted", product)
        await terminal.press("H", "y")
        await terminal.sees("continues", "● live")
        assert (await admin.get("/attention")).json()["attention"] == []


async def test_queue_view_says_why_jobs_wait(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    first = await submitted(admin, "first", capabilities=["has:figma"])
    await submitted(admin, "second", deps=[first])
    await submitted(admin, "later", notBefore="1h")
    async with dashboard(server, product, size=(160, 30)) as terminal:
        await terminal.press("4")
        await terminal.sees("BACK-OFF 1", "later", "in 59:", "READY 1", "has:figma", "BLOCKED 1")
        await terminal.sees("it waits for 1 other job")
        await terminal.press("2")
        await terminal.sees("unroutable")


async def test_a_log_is_followed_live(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    job_id = await submitted(admin, "fix-login")
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    offset = 0

    async def prints(text: str) -> None:
        nonlocal offset
        chunk = f"/jobs/{job_id}/logs?leaseEpoch={grant['leaseEpoch']}&offset={offset}"
        offset = (await worker.http.post(chunk, content=text.encode())).json()["offset"]

    async with dashboard(server, product) as terminal:
        await terminal.sees("BUILDING 1")
        await terminal.press("enter")
        await prints("\x1b[32mreading\x1b[0m\n")
        await terminal.sees("reading", "log, following", "run 1 on")
        await prints("grüße\n")
        await terminal.sees("grüße")
        await worker.report(grant, stage="review", result="ok")
        await terminal.sees("log, ended", "it waits for a review", "a approve")


async def test_viewer_sees_that_an_action_is_forbidden(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    await submitted(admin, "fix-login")
    async with dashboard(server, product, role=Role.VIEWER) as terminal:
        await terminal.sees("INBOX 1")
        await terminal.press("c", "y")
        await terminal.sees("has role viewer; cancel needs one of")


async def test_revoked_token_is_reported_and_a_new_one_is_used(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    made = await server.coordinator.tokens.issue(SYSTEM, "ann", Role.OPERATOR, (product,))
    kept = made.secret
    client = AsyncClient(server.url, kept, product=product, latest=lambda: kept)
    await submitted(admin, "fix-login")
    intervals = RefreshIntervals(debounce=0.0, poll=0.05, retry=0.05)
    async with watching(FleetSource(client), intervals=intervals) as terminal:
        await terminal.sees("fix-login")
        await server.coordinator.tokens.revoke(SYSTEM, made.token.id)
        await terminal.sees("✗ no answer", "token")
        assert "fix-login" in terminal.text
        kept = await server.token("ann", Role.OPERATOR, [product])
        await terminal.sees("● live")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(shell: Shell, port: int) -> Iterator[tuple[str, str]]:
    with shell.start("serve", "--json", "--port", str(port)) as process:
        assert process.stdout is not None
        data = json.loads(process.stdout.readline())
        yield data["url"], Path(data["tokenFile"]).read_text().strip()


async def test_dashboard_reconnects_to_a_restarted_coordinator(tmp_path: Path) -> None:
    shell, port = Shell(tmp_path), free_port()
    intervals = RefreshIntervals(debounce=0.0, poll=0.5, retry=0.05)
    with ExitStack() as first, ExitStack() as second:
        url, token = first.enter_context(serving(shell, port))
        client = AsyncClient(url, token, product="notes", retry_delays=(0.05,))
        headers = {"authorization": f"Bearer {token}", "x-product-id": "notes"}
        async with (
            httpx.AsyncClient(base_url=f"{url}/api/fleet", timeout=30, headers=headers) as admin,
            watching(FleetSource(client), intervals=intervals) as terminal,
        ):
            await submitted(admin, "fix-login")
            await terminal.sees("● live", "fix-login")
            first.close()
            await terminal.sees("✗ no answer", "cannot reach", "fix-login")
            second.enter_context(serving(shell, port))
            await terminal.sees("● live", gone="cannot reach")
            await submitted(admin, "another")
            await terminal.sees("another", "INBOX 2")
