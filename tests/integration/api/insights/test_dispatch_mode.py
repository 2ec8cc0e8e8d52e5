"""Dispatch modes over HTTP: setting, comparison in shadow mode, and refusals with a reason."""

from typing import Any

import httpx

from tests.support.api_server import Server, Worker, open_stream
from tests.support.polling import until


async def submitted(admin: httpx.AsyncClient, name: str) -> str:
    sent = {"manifest": {"name": name}, "body": "Do it."}
    data: dict[str, Any] = (await admin.post("/jobs", json=sent)).raise_for_status().json()
    return str(data["id"])


async def way(admin: httpx.AsyncClient, **wanted: object) -> httpx.Response:
    return await admin.put("/shadow/notes", json=wanted)


async def test_product_in_shadow_mode_reports_its_comparison(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    turned = (await way(admin, mode="shadow")).raise_for_status().json()
    assert (turned["productId"], turned["mode"]) == ("notes", "shadow")
    assert turned["comparison"]["decisions"] == 0
    async with open_stream(worker.http, f"/factories/{worker.id}/offers") as messages:
        assert (await anext(messages)).event is None, "open"
        await until(server.coordinator.leadership.acquire)
        job_id = await submitted(admin, "greet")
        published = [await anext(messages) for _ in range(2)]
        assert [each.event for each in published] == ["command", "shadow"]
        assert published[1].data["jobId"] == job_id
        assert (await worker.granted())["job"]["id"] == job_id
    data = (await admin.get("/shadow")).raise_for_status().json()
    assert (data["decisionsNeeded"], data["agreementNeeded"]) == (200, 0.99)
    (product,) = data["products"]
    compared = product["comparison"]
    assert {name: compared[name] for name in ("decisions", "agree", "same", "diverge")} == {
        "decisions": 1,
        "agree": 1,
        "same": 1,
        "diverge": 0,
    }
    assert (compared["agreement"], compared["conclusive"]) == (1.0, False)
    metrics = (await admin.get(f"{server.url}/metrics")).text
    assert 'shadow_comparisons_total{outcome="agree",product="notes"} 1.0' in metrics


async def test_switch_to_push_requires_evidence_or_force(
    admin: httpx.AsyncClient,
) -> None:
    (await way(admin, mode="pull")).raise_for_status()
    refused = await way(admin, mode="push")
    assert refused.status_code == 409
    assert "`aq shadow` shows the differences" in refused.json()["detail"]
    assert (await way(admin, mode="push", force=True)).json()["mode"] == "push"


async def test_unknown_dispatch_mode_is_rejected(
    admin: httpx.AsyncClient,
) -> None:
    refused = await way(admin, mode="sideways")
    assert refused.status_code == 422
    assert "mode" in refused.text
    assert (await admin.put("/shadow/../x", json={"mode": "pull"})).status_code == 404


async def test_heartbeat_commands_factories_to_ask_in_pull_mode(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    (await way(admin, mode="pull")).raise_for_status()
    heard = (await worker.beat()).json()
    assert heard["commands"] == [{"type": "ask"}]
    (await way(admin, mode="push", force=True)).raise_for_status()
    assert (await worker.beat()).json()["commands"] == []
