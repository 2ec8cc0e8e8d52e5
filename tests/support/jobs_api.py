"""Jobs over the API: submitted, claimed, reported on and acted on."""

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
    await submitted(admin, {"manifest": manifest, "body": "Do it."})
    return await claim_report(worker, *reports)


async def claim_report(worker: Worker, *reports: Mapping[str, Any]) -> dict[str, Any]:
    """Have the worker claim the next job and send these reports; return its grant."""
    grant = await worker.granted()
    for report in reports:
        answer = await worker.report(grant, **report)
        assert answer.status_code == 200, answer.text
    return grant


async def tallied(coordinator: Coordinator) -> None:
    """Wait until every run that has ended is counted."""
    while await coordinator.store.records(TallyIncrement):
        await coordinator.leadership.acquire()
        await coordinator.tallier.step()
        await coordinator.index.catch_up()


def a_child(name: str, **manifest: object) -> dict[str, object]:
    """A child of a roadmap, which is neither reviewed nor shipped."""
    return {"name": name, "body": f"Do {name}.", "reviewPolicy": "auto", "ship": "none", **manifest}


def a_roadmap(*children: Mapping[str, object], **manifest: object) -> dict[str, object]:
    """The document of a composite with these children."""
    said = {"name": "roadmap", "kind": "composite", "children": list(children), **manifest}
    return {"manifest": said, "body": "# The roadmap\n"}


async def submitted(admin: httpx.AsyncClient, document: dict[str, object]) -> dict[str, Any]:
    """Submit a job; return it as it was stored."""
    answer = await admin.post("/jobs", json=document)
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


async def dag(admin: httpx.AsyncClient, job: str = "roadmap") -> dict[str, Any]:
    """The graph of a composite."""
    answer = await admin.get(f"/jobs/{job}/dag")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def stages(admin: httpx.AsyncClient, job: str = "roadmap") -> dict[str, str]:
    """The stages of a composite and its children, by name."""
    return {node["name"]: node["stage"] for node in (await dag(admin, job))["nodes"]}


async def comes_to(admin: httpx.AsyncClient, job: str, stage: str) -> None:
    """Wait until a job has come to a stage."""

    async def there() -> bool:
        return bool((await admin.get(f"/jobs/{job}")).json()["stage"] == stage)

    await until(there)


async def act(admin: httpx.AsyncClient, job: str, action: str, **wish: object) -> httpx.Response:
    """Ask for an action on a job, at the commit that it shows."""
    if action in {"approve", "ship"} and "commit" not in wish:
        checkpoint = (await admin.get(f"/jobs/{job}")).json().get("checkpoint")
        wish |= {"commit": checkpoint["commit"]} if checkpoint else {}
    return await admin.post(f"/jobs/{job}/actions/{action}", json=wish)


async def ships(admin: httpx.AsyncClient, worker: Worker) -> str:
    """The next job that the worker gets, done and shipped by a person; gives its name."""
    grant = await claim_report(worker, {"stage": "building"}, {"stage": "review", "result": "ok"})
    job_id = grant["job"]["id"]
    assert (await act(admin, job_id, "approve")).status_code == 200
    assert (await act(admin, job_id, "ship")).status_code == 200
    name: str = grant["job"]["name"]
    return name
