"""Deployment files: rules and panels name existing metrics, and every alert has a runbook."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import promql_parser
import pytest
import yaml

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.workers.scaling import parse_shapes
from gigafactory.cli.fleet.factory import run as factory_run
from gigafactory.coordinator.core.counters import QUICK_S, WAITS_S
from gigafactory.domain.insights.slo import (
    ASSIGN_WITHIN_S,
    ERROR_BUDGETS,
    PROMISES,
    RECLAIM_WITHIN_S,
    WAIT_WITHIN_S,
    Objective,
)
from gigafactory.wire.scaling import ScalingQuery, ScalingView
from tools.metric_names import families, names
from tools.reference import DASHBOARD

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "gigafactory.rules.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
SCALING = ROOT / "docs" / "howto" / "autoscaling.md"
KEDA = ROOT / "deploy" / "keda" / "factories.yaml"
FROM_PROMETHEUS = {"up"}
INTERVAL = ("$__rate_interval", "5m")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def panels() -> Iterator[str]:
    drawn = json.loads((ROOT / DASHBOARD).read_text())["panels"]
    for panel in drawn:
        yield from (target["expr"].replace(*INTERVAL) for target in panel.get("targets", ()))


def expressions() -> list[str]:
    return [*(rule["expr"] for rule in rules()), *panels()]


def used(expression: str) -> set[str]:
    """Return the series that an expression reads."""
    return set(re.findall(r"\b(?:gigafactory[_:][\w:]+|up)\b", expression))


def test_every_expression_parses() -> None:
    for expression in expressions():
        promql_parser.parse(expression)


def test_every_named_series_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = recorded | set(names()) | FROM_PROMETHEUS
    for expression in expressions():
        found = used(expression)
        assert found or expression.startswith("vector(")
        assert found <= known, expression


def test_every_named_histogram_bound_exists() -> None:
    bounds = {"assign": QUICK_S, "reclaim": QUICK_S, "wait": WAITS_S}
    for expression in expressions():
        for name, bound in re.findall(r'gigafactory_(\w+)_seconds_bucket\{le="(.+?)"', expression):
            assert bound in map(str, bounds[name])


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_every_alert_has_a_runbook_a_summary_and_a_severity(alert: dict[str, Any]) -> None:
    page = (ROOT / alert["annotations"]["runbook"]).read_text()
    assert alert["alert"] in page
    for part in ("## What it means", "## How to investigate", "## What to do"):
        assert part in page
    assert alert["annotations"]["summary"]
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}


def test_every_runbook_belongs_to_an_alert() -> None:
    named = {ROOT / alert["annotations"]["runbook"] for alert in alerts()}
    assert set(RUNBOOKS.glob("*.md")) == named


def test_every_objective_has_an_allowance_and_error_ratios() -> None:
    kept: dict[str, set[str]] = {}
    for rule in rules():
        if rule.get("record", "").startswith("gigafactory:errors:"):
            kept.setdefault(rule["record"], set()).add(rule["labels"]["objective"])
    assert kept["gigafactory:errors:allowed"] == kept["gigafactory:errors:ratio_6h"]
    assert kept["gigafactory:errors:allowed"] == kept["gigafactory:errors:ratio_30d"]


def test_every_metric_is_used_by_a_rule_or_a_panel() -> None:
    read = {series for expression in expressions() for series in used(expression)}
    idle = {f.name for f in families() if not any(series.startswith(f.name) for series in read)}
    # The utilisation metric is computed from these.
    assert idle <= {"gigafactory_leases", "gigafactory_slots"}


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: str(page.stem))
def test_commands_in_a_runbook_exist(page: Path) -> None:
    commands = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for words in re.findall(r"\baq ((?:factory )?[a-z-]+)", page.read_text()):
        assert f"### `aq {words}`" in commands, words


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: str(page.stem))
def test_links_in_a_runbook_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_rules_and_code_have_the_same_error_budgets() -> None:
    allowed = {
        rule["labels"]["objective"]: rule["expr"]
        for rule in rules()
        if rule.get("record") == "gigafactory:errors:allowed"
    }
    assert {name: float(text[7:-1]) for name, text in allowed.items()} == ERROR_BUDGETS
    assert PROMISES.keys() == set(Objective)


@pytest.mark.parametrize(
    ("objective", "within_s", "bounds"),
    [
        (Objective.ASSIGNMENT, ASSIGN_WITHIN_S, QUICK_S),
        (Objective.WAIT, WAIT_WITHIN_S, WAITS_S),
        (Objective.RECLAIM, RECLAIM_WITHIN_S, QUICK_S),
    ],
)
def test_rules_and_code_have_the_same_time_limits(
    objective: Objective, within_s: float, bounds: tuple[float, ...]
) -> None:
    items = [
        rule["expr"]
        for rule in rules()
        if "record" in rule
        and "errors:ratio" in rule["record"]
        and rule["labels"]["objective"] == objective
    ]
    assert len(items) == 2
    assert all(f'le="{within_s}"' in expression for expression in items)
    assert within_s in bounds


def keda(kind: str) -> dict[str, Any]:
    """Return the spec of the only KEDA object of a kind."""
    (found,) = (one for one in yaml.safe_load_all(KEDA.read_text()) if one["kind"] == kind)
    assert found["apiVersion"] == "keda.sh/v1alpha1"
    result: dict[str, Any] = found["spec"]
    return result


def test_keda_reads_the_wanted_number_of_a_shape() -> None:
    scaled = keda("ScaledJob")
    (trigger,) = scaled["triggers"]
    result = trigger["metadata"]
    assert (trigger["type"], result["targetValue"], result["authMode"]) == (
        "metrics-api",
        "1",
        "bearer",
    )
    assert result["valueLocation"] in ScalingView.__struct_fields__
    address = urlsplit(result["url"])
    assert address.path == "/api/fleet/scaling"
    (shape,) = parse_shapes(decode_query(address.query.encode(), ScalingQuery))
    assert shape.maximum == scaled["maxReplicaCount"]
    (parameter,) = keda("TriggerAuthentication")["secretTargetRef"]
    assert parameter["parameter"] == "token"


def test_keda_starts_the_shape_it_asks_about() -> None:
    scaled = keda("ScaledJob")
    query = urlsplit(scaled["triggers"][0]["metadata"]["url"]).query
    (shape,) = parse_shapes(decode_query(query.encode(), ScalingQuery))
    pod = scaled["jobTargetRef"]["template"]["spec"]
    (init,), (factory,) = pod["initContainers"], pod["containers"]
    assert f'"{shape.factories}$HOSTNAME"' in init["args"][0]
    # A command keeps the help option names of its first context, so set them here too.
    names = ["-h", "--help"]
    given = list(factory["args"])
    typed = factory_run.make_context("run", given, help_option_names=names).params
    assert (typed["slots"], typed["leave"], typed["idle_exit"]) == (shape.slots, True, 300.0)
    assert typed["seats"] == ",".join(f"{name}={seats}" for name, seats in shape.engines.items())
    # Only the init container, in which no job runs, may have the admin's token.
    assert "AQ_FLEET_TOKEN" in [variable["name"] for variable in init["env"]]
    assert "AQ_FLEET_TOKEN" not in [variable["name"] for variable in factory["env"]]


def test_kubernetes_never_ends_a_working_factory() -> None:
    scaled = keda("ScaledJob")
    assert scaled["rollout"]["strategy"] == "gradual"
    assert scaled["scalingStrategy"]["strategy"] == "default"
    pod = scaled["jobTargetRef"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] >= 3600


def test_scripts_that_start_machines_are_valid_shell() -> None:
    scripts = re.findall(r"```sh\n(#!.*?)```", SCALING.read_text(), re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
