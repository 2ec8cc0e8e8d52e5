"""The OpenAPI description: complete, readable and correct for every route."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar

from gigafactory.api.app import PREFIX, create_app
from gigafactory.api.http.openapi import describe
from gigafactory.api.http.operation import KEY
from gigafactory.api.http.response import encode
from tests.support.api_server import a_coordinator

CHAPTER = """
POST /jobs; GET /jobs; GET /jobs/{}; PATCH /jobs/{}; POST /jobs/{}/actions/{}; POST /claim
POST /accept; POST /fail; POST /reports; POST /jobs/{}/lease/renew; POST /jobs/{}/lease/release
GET /factories; GET /factories/{}; DELETE /factories/{}; POST /factories/heartbeat
POST /factories/enroll; POST /factories/{}/drain; POST /factories/{}/token/rotate
POST /factories/{}/token/revoke
GET /factories/{}/offers; POST /enrollments; GET /enrollments; DELETE /enrollments/{}
GET /jobs/{}/runs; POST /jobs/{}/logs; GET /jobs/{}/logs; GET /jobs/{}/events
GET /jobs/{}/events/stream; GET /events/stream; GET /jobs/{}/explain; POST /jobs/{}/review
POST /jobs/{}/review/request
GET /reviews; GET /profiles; POST /profiles; GET /profiles/{}; GET /profiles/{}/{}; GET /products/{}
PUT /products/{}; GET /audit; GET /metrics; GET /attention; GET /queue-state; POST /halt
POST /resume
GET /budgets/{}; PUT /budgets/{}; GET /budgets/{}/burndown; POST /budgets/{}/pause
POST /budgets/{}/resume
POST /jobs/{}/artifacts; GET /jobs/{}/artifacts; GET /artifacts/{}; DELETE /artifacts/{}
"""


@pytest.fixture(scope="module")
def app() -> Litestar:
    return create_app(a_coordinator(Path()))


@pytest.fixture(scope="module")
def operations(app: Litestar) -> dict[str, dict[str, Any]]:
    found = describe(app)["paths"]
    return {
        f"{method.upper()} {path}": result
        for path in found
        for method, result in found[path].items()
    }


def test_description_is_openapi_3_1_with_a_bearer_scheme(app: Litestar) -> None:
    document = describe(app)
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


SHOWN = """
from pathlib import Path
from gigafactory.api.http.response import encode
from gigafactory.api.app import create_app
from gigafactory.api.http.openapi import describe
from tests.support.api_server import a_coordinator
print(encode(describe(create_app(a_coordinator(Path())))).decode())
"""


def test_description_is_identical_in_every_process(app: Litestar) -> None:
    result = {
        subprocess.run(
            [sys.executable, "-c", SHOWN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[4],
            capture_output=True,
            check=True,
            text=True,
        ).stdout.rstrip("\n")
        for seed in ("1", "2", "3")
    }
    assert result == {encode(describe(app)).decode()}


def test_description_has_every_operation_of_the_contract(
    operations: dict[str, dict[str, Any]],
) -> None:
    shapes = {re.sub(r"\{\w+\}", "{}", name) for name in operations}
    wanted = [each.strip() for line in CHAPTER.splitlines() for each in line.split(";")]
    named = [
        f"{method} {PREFIX}{path}" for method, _, path in (w.partition(" ") for w in wanted if w)
    ]
    assert [name for name in named if name not in shapes] == []
    assert {"GET /healthz", "GET /readyz", "GET /metrics"} <= set(operations)


def test_every_route_is_described(app: Litestar) -> None:
    silent = [
        f"{sorted(handler.http_methods)} {route.path}"
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if KEY not in handler.opt and handler.http_methods != {"OPTIONS"}
    ]
    assert silent == ["['GET'] /api/openapi.json"]


def test_every_operation_has_a_unique_id_summary_and_request_example(
    operations: dict[str, dict[str, Any]],
) -> None:
    assert len({result["operationId"] for result in operations.values()}) == len(operations)
    for name, result in operations.items():
        assert result["summary"], name
        assert result["description"], name
        for content in result.get("requestBody", {}).get("content", {}).values():
            assert "example" in content, name


def test_every_operation_lists_its_problem_responses(
    operations: dict[str, dict[str, Any]],
) -> None:
    for name, result in operations.items():
        problems = {
            status
            for status, answer in result["responses"].items()
            if "application/problem+json" in answer.get("content", {})
        }
        assert {"400", "422", "429", "503"} <= problems, name
        if "security" in result:
            assert {"401", "403"} <= problems, name
        if "{" in name and "/actions/" not in name:
            assert "404" in problems, name
