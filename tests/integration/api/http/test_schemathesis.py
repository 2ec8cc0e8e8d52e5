"""The whole OpenAPI description against the real application: no 5xx, no undocumented response."""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gigafactory.api.app import create_app
from gigafactory.api.http.limits import FailedAttempts
from gigafactory.api.http.openapi import describe
from tests.support.api_server import Server, a_coordinator, a_server_in_thread, a_worker

PROMISES = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ENDLESS = r"/stream$|/offers$"
"""Streams end only when the client disconnects; other tests read them."""
FATAL = r"^DELETE|/token/|enroll"
"""Operations that would remove the factory or the token that the other requests use."""
WORKERS = r"PATCH|/claim|/accept|/reports|/fail|/lease/|heartbeat|POST .*/(logs|artifacts)$"
EXAMPLES = 10
AIMED: dict[str, str | int] = {"factoryId": "mac-1", "leaseEpoch": 1}
KNOWN = {
    "job_id": "known",
    "factory_id": "mac-1",
    "product_id": "notes",
    "name": "backend-engineer",
    "action": "promote",
    "version": "1",
}

description = schemathesis.openapi.from_dict(describe(create_app(a_coordinator(Path()))))
description.config.phases.coverage.unexpected_methods = set()
every = description.exclude(path_regex=ENDLESS)
tokens: dict[str, str] = {}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with a running job, a waiting job and a factory."""
    folder = tmp_path_factory.mktemp("server")
    with a_server_in_thread(
        folder, prepare, failed_attempts=FailedAttempts(allowed=10**9)
    ) as server:
        tokens["admin"] = server.admin_token
        yield server.url


async def prepare(server: Server) -> None:
    async with server.client() as admin, a_worker(server) as worker:
        await admin.post("/jobs", json={"manifest": {"name": "known"}, "body": "Do it."})
        grant = await worker.granted()
        await worker.report(grant, stage="building", note="begun")
        KNOWN["job_id"] = grant["job"]["id"]
        said = {"name": "a.html", "sha256": sha256(b"<p>").hexdigest(), "mediaType": "text/html"}
        place = f"/jobs/{KNOWN['job_id']}/artifacts"
        made = await worker.http.post(place, params={**said, "leaseEpoch": 1}, content=b"<p>")
        KNOWN["artifact_id"] = made.json()["id"]
        await admin.post("/jobs", json={"manifest": {"name": "waiting"}, "body": "Do it."})
        tokens["factory"] = worker.http.headers["authorization"].removeprefix("Bearer ")


@every.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_responds_as_described(case: Case[Any], url: str) -> None:
    aim(case)
    case.call_and_validate(base_url=url, checks=PROMISES, headers=headers(case), timeout=20)


def aim(case: Case[Any]) -> None:
    """Point most requests at existing objects, and remove waiting and idempotency keys."""
    given: dict[str, Any] = dict(case.path_parameters or {})
    odd = len(str(case.body)) % 3
    if len(str(given)) % 3 and not re.search(FATAL, f"{case.method} {case.path}"):
        case.path_parameters = {name: KNOWN.get(name, value) for name, value in given.items()}
    if case.headers is not None:
        case.headers.pop("Idempotency-Key", None)
    if case.query and "follow" in case.query:
        case.query = {**case.query, "follow": "false"}
    if isinstance(case.body, dict):
        case.body = {**case.body, **{k: AIMED[k] for k in case.body if k in AIMED and odd}}
        if "wait" in case.body:
            case.body = {**case.body, "wait": 0}


def headers(case: Case[Any]) -> dict[str, str]:
    token = tokens["factory" if re.search(WORKERS, f"{case.method} {case.path}") else "admin"]
    return {"authorization": f"Bearer {token}", "x-product-id": "notes"}
