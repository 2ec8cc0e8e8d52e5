"""Jobs over the API: submit, claim, report and act."""

from collections.abc import Mapping
from typing import Any

import httpx

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.insights.tally import TallyIncrement
from tests.support.api_server import Worker
from tests.support.polling import until


async def submit_claim_report(
    admin: httpx.AsyncClient, worker: Worker, *reports: Mapping[str, Any], **manifest: object
) -> dict[str, Any]:
    """Submit a job, have the worker claim the next one and send these reports; return its grant."""
    await submit_job(admin, {"manifest": manifest, "body": "Do it."})
    return await claim_report(worker, *reports)


async def claim_report(worker: Worker, *reports: Mapping[str, Any]) -> dict[str, Any]:
    """Have the worker claim the next job and send these reports; return its grant."""
    grant = await worker.granted()
    for report in reports:
        answer = await worker.report(grant, **report)
        assert answer.status_code == 200, answer.text
    return grant


async def count_ended_runs(coordinator: Coordinator) -> None:
    """Wait until every ended run is counted."""
    while await coordinator.store.records(TallyIncrement):
        await coordinator.leadership.acquire()
        await coordinator.tallier.step()
        await coordinator.index.catch_up()


def a_child(name: str, **manifest: object) -> dict[str, object]:
    """Return a child of a composite that needs no review and no ship."""
    return {"name": name, "body": f"Do {name}.", "reviewPolicy": "auto", "ship": "none", **manifest}


def a_roadmap(*children: Mapping[str, object], **manifest: object) -> dict[str, object]:
    """Return the document of a composite with these children."""
    manifest_fields = {
        "name": "roadmap",
        "kind": "composite",
        "children": list(children),
        **manifest,
    }
    return {"manifest": manifest_fields, "body": "# The roadmap\n"}


async def submit_job(admin: httpx.AsyncClient, document: dict[str, object]) -> dict[str, Any]:
    """Submit a job and return it."""
    answer = await admin.post("/jobs", json=document)
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


async def dag(admin: httpx.AsyncClient, job: str = "roadmap") -> dict[str, Any]:
    """Return the graph of a composite."""
    answer = await admin.get(f"/jobs/{job}/dag")
    assert answer.status_code == 200, answer.text
    graph: dict[str, Any] = answer.json()
    return graph


async def stages(admin: httpx.AsyncClient, job: str = "roadmap") -> dict[str, str]:
    """Return the stages of a composite and its children by name."""
    return {node["name"]: node["stage"] for node in (await dag(admin, job))["nodes"]}


async def wait_for_stage(admin: httpx.AsyncClient, job: str, stage: str) -> None:
    """Wait until a job reaches a stage."""

    async def is_there() -> bool:
        return bool((await admin.get(f"/jobs/{job}")).json()["stage"] == stage)

    await until(is_there)


async def act(admin: httpx.AsyncClient, job: str, action: str, **fields: object) -> httpx.Response:
    """Perform an action on a job, at its current commit."""
    if action in {"approve", "ship"} and "commit" not in fields:
        checkpoint = (await admin.get(f"/jobs/{job}")).json().get("checkpoint")
        fields |= {"commit": checkpoint["commit"]} if checkpoint else {}
    return await admin.post(f"/jobs/{job}/actions/{action}", json=fields)


async def ship_next_job(admin: httpx.AsyncClient, worker: Worker) -> str:
    """Run and ship the worker's next job; return its name."""
    grant = await claim_report(worker, {"stage": "building"}, {"stage": "review", "result": "ok"})
    job_id = grant["job"]["id"]
    assert (await act(admin, job_id, "approve")).status_code == 200
    assert (await act(admin, job_id, "ship")).status_code == 200
    name: str = grant["job"]["name"]
    return name
