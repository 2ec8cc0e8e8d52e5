"""Budgets over HTTP: setting, reading, spending, pausing and resuming."""

from typing import Any

import httpx
import pytest

from tests.support.api_server import Worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEN = {"ceilingUsd": "10", "period": "day"}


async def spending(worker: Worker, grant: dict[str, Any], dollars: str) -> httpx.Response:
    return await worker.report(grant, stage="building", usage={"costUsd": dollars})


async def test_product_without_a_ceiling_reports_none(
    admin: httpx.AsyncClient, product: str
) -> None:
    found = (await admin.get(f"/budgets/{product}")).json()
    assert (found["ceilingUsd"], found["leftUsd"], found["paused"]) == (None, None, False)
    assert found["says"] == "$0 spent, no ceiling"


async def test_spending_counts_against_the_ceiling(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    made = await admin.put(f"/budgets/{product}", json=TEN | {"reserveUsd": 0.5})
    assert (made.status_code, made.json()["leftUsd"]) == (200, "10")
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    assert (await admin.get(f"/budgets/{product}")).json()["reservedUsd"] == "0.5"
    assert (await spending(worker, grant, "8.123456789")).status_code == 200
    found = (await admin.get(f"/budgets/{product}")).json()
    assert (found["spentUsd"], found["percent"], found["warning"]) == ("8.123456789", 81, 80)
    (day,) = (await admin.get(f"/budgets/{product}/burndown")).json()["days"]
    assert (day["spentUsd"], day["leftUsd"]) == ("8.123456789", "1.876543211")
    low = await admin.put(f"/budgets/{product}", json=TEN | {"ceilingUsd": 8})
    assert (low.status_code, low.json()["faults"][0]["field"]) == (422, "ceilingUsd")
    assert "8.123456789 is spent already" in low.json()["detail"]
    assert (await admin.get(f"/budgets/{product}")).json()["ceilingUsd"] == "10"


async def test_spent_ceiling_preempts_running_jobs_and_blocks_resume(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    await admin.put(f"/budgets/{product}", json=TEN)
    await admin.post("/jobs", json={"manifest": {"name": "a"}})
    grant = await worker.granted()
    job_id = grant["job"]["id"]
    await spending(worker, grant, "10")
    commands: list[dict[str, str]] = []
    while not commands:
        commands = (await worker.beat(running=[job_id])).json()["commands"]
    assert commands == [{"type": "preempt", "jobId": job_id}]
    refused = await admin.post(f"/budgets/{product}/resume")
    assert (refused.status_code, refused.json()["code"]) == (423, "budget_paused")
    kinds = [matter["kind"] for matter in (await admin.get("/attention")).json()["attention"]]
    assert "budget" in kinds


async def test_paused_product_gets_no_grants_until_it_is_resumed(
    admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    paused = (await admin.post(f"/budgets/{product}/pause", json={"reason": "ask"})).json()
    assert (paused["paused"], paused["says"].endswith(": ask")) == (True, True)
    made = (await admin.post("/jobs", json={"manifest": {"name": "a"}})).json()
    assert (await worker.claim()).status_code == 204
    why = (await admin.get(f"/jobs/{made['id']}/explain")).json()
    assert why["reasons"][0]["code"] == "budget_paused"
    assert (await admin.post(f"/budgets/{product}/resume")).json()["paused"] is False
    assert (await worker.granted())["job"]["name"] == "a"


@pytest.mark.parametrize(
    "ceiling",
    ["-1", -1, 0, "0", "NaN", "nan", "Infinity", "1e30", "0.0000000001", "ten", 1e300, "", True],
)
async def test_invalid_ceiling_is_rejected(
    admin: httpx.AsyncClient, product: str, ceiling: object
) -> None:
    refused = await admin.put(f"/budgets/{product}", json={"ceilingUsd": ceiling})
    assert refused.status_code == 422
    assert refused.json()["faults"][0]["field"] == "ceilingUsd"
    assert (await admin.get(f"/budgets/{product}")).json()["ceilingUsd"] is None


async def test_invalid_budget_is_rejected(admin: httpx.AsyncClient, product: str) -> None:
    for wrong in ({}, {"ceilingUsd": 1, "period": "week"}, {"ceilingUsd": 1, "limit": 2}):
        assert (await admin.put(f"/budgets/{product}", json=wrong)).status_code == 422
    assert (await admin.get("/budgets/a..b")).status_code == 404
