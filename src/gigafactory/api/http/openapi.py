"""The OpenAPI 3.1 document, generated from the operations of the handlers."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Litestar, get
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from gigafactory import __version__
from gigafactory.api.http.errors import PROBLEM, TITLES
from gigafactory.api.http.operation import KEY, Body, Operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse, encode
from gigafactory.wire.problem import Problem

TITLE = "Gigafactory"
ABOUT = """Turns written intent into shipped software on a fleet of machines.

Send `Authorization: Bearer <token>` with every request, and `x-product-id` to choose a product
within the token's scope. A request that changes something may carry an `Idempotency-Key`: repeated
within 24 hours, it gets the same response. Errors are problem documents (RFC 9457) with a stable
`code`. Times are ISO 8601 in UTC with milliseconds, money is a decimal string in US dollars, ids
are opaque.
"""
REF = "#/components/schemas/{name}"
SCHEMA_NAMES = {
    "ActionDoc": "WishDoc",
    "ArchiveQuery": "ArchivePage",
    "ArtifactQuery": "Opened",
    "ArtifactUploadQuery": "Upload",
    "AttentionItemView": "MatterView",
    "AuditQuery": "AuditPage",
    "ComparisonOutcome": "Outcome",
    "DefectSource": "Source",
    "DispatchMode": "Way",
    "DispatchModeDoc": "WayDoc",
    "EventQuery": "EventPage",
    "FactoryState": "State",
    "FileNameQuery": "FileName",
    "HealthView": "Health",
    "IntervalView": "OddsView",
    "JobIncludes": "More",
    "LogChunkQuery": "Chunk",
    "LogReadQuery": "LogPart",
    "ProductDispatchView": "DispatchedView",
    "ReadyView": "Ready",
    "RefusedTicketView": "UnfitView",
    "ReportResultView": "Verdict",
    "ReportResultsView": "Verdicts",
    "ResumeQuery": "Resume",
    "ReviewRequestDoc": "AskedDoc",
    "RolloutMode": "Mode",
    "ScaleTargetView": "OutlookView",
    "ShapeFactoryView": "SightView",
    "TicketDoc": "ItemSent",
    "TicketUpdateDoc": "EchoDoc",
    "TicketUpdateView": "ToldView",
    "WebhookQuery": "WebhookPage",
}
"""Published schema names that differ from the class name; generated clients depend on them."""

_PARAMETER = re.compile(r"\{(\w+):\w+\}")
_READS = {"GET"}


def describe(app: Litestar, version: str = __version__) -> dict[str, Any]:
    """Return the OpenAPI document of all documented routes."""
    operations = list(_operations(app))
    schemas, components = _schemas(operation for _, _, _, operation in operations)
    paths: dict[str, dict[str, Any]] = {}
    for path, method, handler, operation in operations:
        public_path = _PARAMETER.sub(r"{\1}", path)
        paths.setdefault(public_path, {})[method.lower()] = _describe_operation(
            path, method, handler, operation, schemas
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version, "description": ABOUT},
        "paths": {path: dict(sorted(paths[path].items())) for path in sorted(paths)},
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operations(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler, Operation]]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            operation = handler.opt.get(KEY)
            if isinstance(operation, Operation):
                for method in sorted(handler.http_methods):
                    yield route.path, method, handler, operation


def _schemas(operations: Iterator[Operation]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the schema of every request and response type, and the components."""
    types: list[Any] = [Problem]
    for operation in operations:
        bodies = (*operation.request_bodies, *operation.responses.values())
        types += [of for body in bodies if body for of in body.types if of not in types]
        if operation.query is not None and operation.query not in types:
            types.append(operation.query)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    named = {SCHEMA_NAMES.get(name, name): _published(of) for name, of in components.items()}
    return dict(zip(types, map(_published, schemas), strict=True)), named


def _published(schema: Any) -> Any:  # noqa: ANN401 - a JSON schema
    if isinstance(schema, list):
        return [_published(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    published = {key: _published(value) for key, value in schema.items()}
    for own, public in SCHEMA_NAMES.items():
        if published.get("$ref") == REF.format(name=own):
            published["$ref"] = REF.format(name=public)
        if published.get("title") == own:
            published["title"] = public
    return published


def _describe_operation(
    path: str, method: str, handler: HTTPRouteHandler, operation: Operation, schemas: dict[Any, Any]
) -> dict[str, Any]:
    summary, _, description = inspect.cleandoc(handler.fn.__doc__ or "").partition("\n")
    described: dict[str, Any] = {
        "operationId": handler.fn.__name__.replace("_", "-"),
        "tags": [operation.tag],
        "summary": summary.rstrip("."),
        "description": description.strip() or summary,
        "parameters": [
            *_path_parameters(path),
            *_query_parameters(operation),
            *_header_parameters(method, operation),
        ],
        "responses": {
            **{
                str(status): _response(body, schemas)
                for status, body in operation.responses.items()
            },
            **{str(status): _refusal(status, schemas) for status in operation.error_statuses},
        },
    }
    if operation.token:
        described["security"] = [{"token": []}]
    if operation.request_bodies:
        described["requestBody"] = {
            "required": not operation.optional_body,
            "content": {
                body.media_type: _content(body, schemas) for body in operation.request_bodies
            },
        }
    return described


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    if operation.query is None:
        return
    _, components = msgspec.json.schema_components([operation.query], ref_template=REF)
    described = components[operation.query.__name__]
    required = described.get("required", ())
    for name, schema in described["properties"].items():
        type_schema = dict(schema)
        text = type_schema.pop("description", "")
        parameter = {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": type_schema,
        }
        yield parameter | ({"description": text} if text else {})


def _header_parameters(method: str, operation: Operation) -> Iterator[dict[str, Any]]:
    names = list(operation.headers)
    if operation.token:
        names.append("x-product-id")
    if operation.token and method not in _READS:
        names.append("Idempotency-Key")
    for name in names:
        yield {"name": name, "in": "header", "required": False, "schema": HEADERS[name]}


HEADERS: dict[str, dict[str, Any]] = {
    "x-product-id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,99}$"},
    "Idempotency-Key": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,200}$"},
    "x-file-name": {"type": "string", "maxLength": 200},
    "Range": {"type": "string", "pattern": "^bytes=([0-9]{1,15}-[0-9]{0,15}|-[0-9]{1,15})$"},
    "If-Range": {"type": "string", "pattern": '^"[0-9a-f]{1,64}"$'},
    "Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "X-Hub-Signature-256": {"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"},
    "X-GitHub-Delivery": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,100}$"},
    "X-Delivery-Id": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,100}$"},
}


def _response(body: Body | None, schemas: dict[Any, Any]) -> dict[str, Any]:
    if body is None:
        return {"description": "done; the response has no body"}
    content = {body.media_type: _content(body, schemas)}
    content |= {media_type: {"schema": {"type": "string"}} for media_type in body.other_media_types}
    return {"description": body.description or "done", "content": content}


def _refusal(status: int, schemas: dict[Any, Any]) -> dict[str, Any]:
    return {
        "description": TITLES[status],
        "content": {PROBLEM: {"schema": schemas[Problem]}},
    }


def _content(body: Body, schemas: dict[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": _body_schema([schemas[of] for of in body.types])}
    if body.example is not None:
        content["example"] = body.example
    return content


def _body_schema(alternatives: list[Any]) -> Any:  # noqa: ANN401 - a JSON schema
    if len(alternatives) > 1:
        return {"anyOf": alternatives}
    return alternatives[0] if alternatives else {"type": "string"}


@get("/api/openapi.json")
async def openapi(request: ApiRequest) -> ASGIApp:
    """Return the OpenAPI document, generated on first use."""
    state = request.app.state
    if state.get("openapi") is None:
        state["openapi"] = encode(describe(request.app))
    return HttpResponse(200, state["openapi"])
