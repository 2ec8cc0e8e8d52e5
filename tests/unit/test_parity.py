"""Every operation of the API that people can use has a command and a page."""

import click
import pytest

from gigafactory.api.app import create_app
from gigafactory.api.http.openapi import describe
from gigafactory.cli.group import aq
from gigafactory.web.routes import PAGES
from tools.reference import _coordinator

OF_MACHINES = frozenset(
    {
        *("accept", "append-log", "claim", "enroll", "fail", "heartbeat", "issue-job-token"),
        *("release", "renew", "report", "report-many", "webhook"),
    }
)
"""Operations of factories, agents and trackers."""

PLANES = {
    "act-on-job": ("approve", "/jobs/{job_id:str}/actions/{action:str}"),
    "add-artifact": ("artifacts", "/jobs/{job_id:str}/artifacts"),
    "add-children": ("submit", "/jobs/{job_id:str}/children"),
    "delete-artifact": ("artifacts", "/artifacts/{artifact_id:str}/delete"),
    "deregister-factory": ("factory deregister", "/fleet/{factory_id:str}/{verb:str}"),
    "drain-factory": ("factory drain", "/fleet/{factory_id:str}/{verb:str}"),
    # Tickets are synchronised automatically; these commands serve users who disabled that.
    "echo": ("to-tracker", None),
    "halt": ("halt", "/halt"),
    "ingest": ("from-tracker", None),
    "invite": ("factory invite", "/fleet/enroll"),
    "issue-token": ("tokens create", "/settings/tokens"),
    "link-artifact": ("artifacts", "/artifacts/{artifact_id:str}/share"),
    "make-login": ("login", "/login"),
    "pause-budget": ("budget pause", "/budget/{product_id:str}/pause"),
    "put-budget": ("budget set", "/budget/{product_id:str}"),
    "put-product": ("product set", "/settings/products"),
    "put-routing": ("routing mode", "/insights/routing/{product_id:str}"),
    "put-shadow": ("shadow mode", "/settings/dispatch"),
    "report-defect": ("defect", "/jobs/{job_id:str}/defects"),
    "request-review": ("request-review", "/jobs/{job_id:str}/actions/{action:str}"),
    "resume": ("resume", "/resume"),
    "resume-budget": ("budget resume", "/budget/{product_id:str}/resume"),
    "review-job": ("reject", "/jobs/{job_id:str}/actions/{action:str}"),
    "revoke-factory-token": ("factory revoke", "/fleet/{factory_id:str}/{verb:str}"),
    "revoke-token": ("tokens revoke", "/settings/tokens/revoke"),
    "rotate-factory-token": ("factory rotate", "/fleet/{factory_id:str}/{verb:str}"),
    "save-profile": ("profiles save", "/settings/profiles"),
    "submit-job": ("submit", "/new"),
    "withdraw-enrollment": (
        "factory withdraw",
        "/fleet/enrollments/{enrollment_id:str}/withdraw",
    ),
}
"""For each operation that changes something: its command, and the target of its form."""


def test_every_changing_operation_is_listed_for_all_planes() -> None:
    document = describe(create_app(_coordinator()), "0")
    changing = {
        operation["operationId"]
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method != "get"
    }
    assert changing - OF_MACHINES == PLANES.keys()


@pytest.mark.parametrize("typed", sorted({command for command, _ in PLANES.values()}))
def test_every_changing_operation_has_a_command(typed: str) -> None:
    found: click.Command | None = aq
    context = click.Context(aq)
    for word in typed.split():
        assert isinstance(found, click.Group)
        found = found.get_command(context, word)
    assert found is not None, typed


def test_every_changing_operation_has_a_form() -> None:
    posts = {route.path for route in PAGES.routes if "POST" in getattr(route, "methods", ())}
    assert {place for _, place in PLANES.values() if place is not None} <= posts
