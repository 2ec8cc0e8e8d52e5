"""Generate the Grafana dashboard from a list of rows and panels."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COLUMNS = 24
HEIGHT = 8


@dataclass(frozen=True)
class Panel:
    """One panel: title, queries (expression and legend each) and unit."""

    title: str
    draws: tuple[tuple[str, str], ...]
    unit: str = "short"
    text: str = ""
    kind: str = "timeseries"


def _p95(metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.95, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def _rate(metric: str, by: str = "") -> str:
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({metric}[$__rate_interval]))"


def _passed(metric: str, window: str) -> str:
    passed = f'sum by (product) (increase({metric}{{verdict="passed"}}[{window}]))'
    return f"{passed} / sum by (product) (increase({metric}[{window}]))"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Objectives": (
        Panel(
            "Error budget left",
            (("gigafactory:error_budget:left", "{{objective}} {{product}}"),),
            "percentunit",
            "Over the last 30 days: 100 % untouched, below 0 % overspent.",
        ),
        Panel(
            "Invariants: double lease, double ship",
            (("sum(increase(gigafactory_violations_total[30d]))", "violations"),),
            kind="stat",
        ),
        Panel(
            "First pass",
            ((_passed("gigafactory_first_tries_total", "1d"), "{{product}}"),),
            "percentunit",
        ),
    ),
    "Queue": (
        Panel(
            "Waiting",
            (
                (
                    "max by (product) (sum by (product, instance) (gigafactory_queue_depth))",
                    "{{product}}",
                ),
            ),
        ),
        Panel("Jobs by stage", (("max by (stage) (gigafactory_jobs)", "{{stage}}"),)),
        Panel(
            "Longest current wait",
            (("max by (product) (gigafactory_queue_oldest_seconds)", "{{product}}"),),
            "s",
        ),
        Panel(
            "Assignment, p95",
            ((_p95("gigafactory_assign_seconds", "product"), "{{product}}"),),
            "s",
        ),
        Panel("Wait, p95", ((_p95("gigafactory_wait_seconds", "product"), "{{product}}"),), "s"),
        Panel("Unroutable jobs", (("max(gigafactory_jobs_unroutable)", "jobs"),)),
    ),
    "Fleet": (
        Panel(
            "Utilisation",
            (("max(gigafactory_utilization)", "leases over slots"),),
            "percentunit",
        ),
        Panel(
            "Factories",
            (
                ("max(gigafactory_factories)", "joined"),
                ("max(gigafactory_factories_online)", "online"),
                ("max(gigafactory_factories_draining)", "draining"),
            ),
        ),
        Panel(
            "Seats",
            (
                ("max by (engine) (gigafactory_seats_taken)", "{{engine}} taken"),
                ("max by (engine) (gigafactory_seats_total)", "{{engine}} total"),
            ),
        ),
        Panel(
            "Fairness",
            (("max by (product) (gigafactory_seat_time_seconds)", "{{product}}"),),
            "s",
            "Recent seat time divided by share; equal among products with waiting jobs is fair.",
        ),
        Panel(
            "Engines rate-limited or unavailable",
            (
                (
                    "max by (engine) (gigafactory_engine_cooling_factories)",
                    "{{engine}} rate-limited",
                ),
                (
                    "max by (engine) (gigafactory_engine_unavailable_factories)",
                    "{{engine}} unavailable",
                ),
            ),
        ),
        Panel("Halted", (("max by (product) (gigafactory_halted)", "{{product}}"),)),
    ),
    "Runs": (
        Panel(
            "Ended, by result", ((_rate("gigafactory_run_seconds_count", "result"), "{{result}}"),)
        ),
        Panel("Duration, p95", ((_p95("gigafactory_run_seconds", "engine"), "{{engine}}"),), "s"),
        Panel(
            "Verify pass rate",
            ((_passed("gigafactory_verifies_total", "1h"), "{{product}}"),),
            "percentunit",
        ),
        Panel(
            "Cost per hour",
            (
                (
                    "sum by (product, engine) (increase(gigafactory_cost_usd_total[1h]))",
                    "{{product}} {{engine}}",
                ),
            ),
            "currencyUSD",
        ),
        Panel(
            "Tokens", ((_rate("gigafactory_tokens_total", "engine, kind"), "{{engine}} {{kind}}"),)
        ),
        Panel(
            "Dead letters and budget breaches",
            (
                ("sum(increase(gigafactory_dead_letters_total[1h]))", "dead letters"),
                ("sum(increase(gigafactory_budget_breaches_total[1h]))", "over budget"),
            ),
        ),
    ),
    "Coordination": (
        Panel(
            "Lost races, fenced writes, reaped leases",
            (
                (_rate("gigafactory_claim_conflicts_total", "why"), "conflict: {{why}}"),
                (_rate("gigafactory_fencing_rejections_total"), "fenced"),
                (_rate("gigafactory_reaps_total"), "reaped"),
            ),
        ),
        Panel(
            "Lags, p95",
            (
                (_p95("gigafactory_dispatch_lag_seconds"), "dispatch"),
                (_p95("gigafactory_feed_lag_seconds"), "feed"),
                (_p95("gigafactory_reclaim_seconds"), "reclaim"),
            ),
            "s",
        ),
        Panel("Behind the feed", (("max(gigafactory_feed_behind_events)", "events"),)),
        Panel("Commits, p95", ((_p95("gigafactory_commit_seconds"), "commit"),), "s"),
        Panel(
            "Store and event loop",
            (
                ("min(gigafactory_store_up)", "up"),
                (_rate("gigafactory_store_failures_total"), "failures"),
                (_rate("gigafactory_loop_blocks_total"), "loop blocks"),
                (_rate("gigafactory_loop_blocked_seconds_total"), "seconds blocked per second"),
            ),
        ),
        Panel("Open streams", (("sum(gigafactory_streams_open)", "streams"),)),
        Panel(
            "Shadow dispatch",
            ((_rate("gigafactory_shadow_comparisons_total", "outcome"), "{{outcome}}"),),
        ),
    ),
}


def dashboard() -> Iterator[str]:
    """Yield the dashboard as JSON for Grafana."""
    drawn: list[dict[str, Any]] = []
    top = 0
    for row, panels in ROWS.items():
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        drawn.append({"id": len(drawn) + 1, "type": "row", "title": row, "gridPos": place})
        top += 1
        width = COLUMNS // 3
        for number, panel in enumerate(panels):
            place = {
                "h": HEIGHT,
                "w": width,
                "x": number % 3 * width,
                "y": top + number // 3 * HEIGHT,
            }
            drawn.append(_panel(panel, len(drawn) + 1, place))
        top += (len(panels) + 2) // 3 * HEIGHT
    yield json.dumps(_frame(drawn), indent=2)


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(65 + at), "datasource": source, "expr": expr, "legendFormat": legend}
            for at, (expr, legend) in enumerate(panel.draws)
        ],
    }


def _frame(panels: list[dict[str, Any]]) -> dict[str, Any]:
    chosen = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "gigafactory",
        "title": "Gigafactory",
        "tags": ["gigafactory"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [chosen]},
        "panels": panels,
    }
