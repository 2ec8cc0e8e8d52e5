"""Defects of shipped jobs over HTTP: recorded once, counted and compared with the objective."""

import httpx
import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG = {"source": "ticket", "reference": "BUG-7"}


async def shipped(admin: httpx.AsyncClient, worker: Worker, name: str = "a") -> str:
    said = {"manifest": {"name": name, "ship": "none", "verify": "true"}, "body": "Do it."}
    job_id: str = (await admin.post("/jobs", json=said)).json()["id"]
    grant = await worker.granted()
    verify = {"passed": True}
    for result in ({"stage": "building"}, {"stage": "testing", "result": "ok", "verify": verify}):
        assert (await worker.report(grant, **result)).status_code == 200
    assert (await admin.post(f"/jobs/{job_id}/actions/ship", json={})).status_code == 200
    return job_id


async def test_a_defect_is_recorded_once_whatever_its_source(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    job_id = await shipped(admin, worker)
    for teller in (admin, worker.http, admin):
        answer = await teller.post(f"/jobs/{job_id}/defects", json=WRONG)
        assert (answer.status_code, answer.json()["stage"]) == (200, "shipped"), answer.text
    more = {"source": "person", "reference": "the totals are wrong"}
    assert (await admin.post(f"/jobs/{job_id}/defects", json=more)).status_code == 200
    events = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    items = [event["data"]["reference"] for event in events if event["type"] == "defect_reported"]
    assert items == ["BUG-7", "the totals are wrong"]
    text = (await admin.get(f"{server.url}/metrics")).text
    assert f'gigafactory_escaped_defects_total{{product="{product}"}} 1.0' in text


async def test_defect_counts_in_the_insights(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    first = await shipped(admin, worker, "first")
    await shipped(admin, worker, "second")
    assert (await admin.post(f"/jobs/{first}/defects", json=WRONG)).status_code == 200
    coordinator = server.coordinator
    await coordinator.leadership.acquire()
    await coordinator.index.catch_up()
    await coordinator.tallier.step()
    total = (await admin.get("/insights")).json()["total"]
    assert (total["escaped"], total["shipped"]) == (1, 2)


async def test_invalid_defect_report_is_rejected_and_not_recorded(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    said = {"manifest": {"name": "open"}, "body": "Do it."}
    open_id = (await admin.post("/jobs", json=said)).json()["id"]
    early = await admin.post(f"/jobs/{open_id}/defects", json=WRONG)
    assert (early.status_code, early.json()["code"]) == (409, "illegal_transition")
    for wrong in ({"reference": ""}, {"reference": "x" * 201}, {"source": "gossip"}, {}):
        answer = await admin.post(f"/jobs/{open_id}/defects", json=wrong)
        assert answer.status_code == 422, wrong
    assert (await admin.post("/jobs/nowhere/defects", json=WRONG)).status_code == 404
    async with server.client(await server.token("vic", Role.VIEWER)) as viewer:
        assert (await viewer.post(f"/jobs/{open_id}/defects", json=WRONG)).status_code == 403
    events = (await admin.get(f"/jobs/{open_id}/events")).json()["events"]
    assert "defect_reported" not in [event["type"] for event in events]
