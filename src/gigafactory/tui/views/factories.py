"""The factories view: state, engines and jobs of each factory."""

from collections.abc import Iterator

from rich.cells import cell_len

from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.system.formatting import format_age
from gigafactory.tui.views import ViewContext, empty_rows
from gigafactory.tui.views.jobs import job_row
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import (
    AMBER,
    DIM,
    RED,
    TextCell,
    format_clock_time,
    format_countdown,
    one_line,
)
from gigafactory.wire.fleet import EngineView, FactoryView
from gigafactory.wire.jobs import JobView

HEALTH_GOOD, HEALTH_POOR = 0.7, 0.3


def factory_rows(context: ViewContext) -> list[Row]:
    """Return each factory with its engines and jobs."""
    rows: list[Row] = []
    for factory in context.snapshot.factories:
        running = [j for j in context.snapshot.jobs if j.lease and j.lease.factory_id == factory.id]
        words = (factory.id, factory.os, *factory.labels, *factory.engines, *factory.capabilities)
        if context.matches(*words, *(job.name for job in running)):
            rows += _factory_card(context, factory, running)
    return rows or empty_rows(context, context.hints.no_factories)


def _factory_card(context: ViewContext, factory: FactoryView, jobs: list[JobView]) -> Iterator[Row]:
    state, colour = _factory_state(context, factory)
    health = f"health {factory.health:.0%}" if factory.online else ""
    health_colour = (
        RED if factory.health < HEALTH_POOR else AMBER if factory.health < HEALTH_GOOD else DIM
    )
    used = f"{len(jobs)}/{factory.slots} slots" if factory.slots else ""
    text = context.row_text(
        TextCell("●" if factory.online else "○", 1, colour),
        TextCell(factory.id, 20, "bold"),
        TextCell(state, 20, colour),
        TextCell(health, 12, health_colour),
        TextCell(used, 10),
        TextCell(" ".join(filter(None, (factory.os, factory.version))), None, DIM),
    )
    yield Row(text, f"factory/{factory.id}", factory)
    for name, engine in sorted(factory.engines.items()):
        yield _engine_row(context, name, engine, jobs)
    for job in jobs:
        yield job_row(context, job, indent=3, key=f"{factory.id}/{job.id}")


def _factory_state(context: ViewContext, factory: FactoryView) -> tuple[str, str]:
    if not factory.online:
        seen = factory.last_seen
        return f"offline for {format_age(seen, context.now)}" if seen else "never seen", RED
    return ("draining", AMBER) if factory.draining else ("online", "green")


def _engine_row(context: ViewContext, name: str, engine: EngineView, jobs: list[JobView]) -> Row:
    building = [job for job in jobs if job.stage is not Stage.TESTING]
    used = sum(base_engine(job.engine or "") == name for job in building)
    state, colour = f"{used}/{engine.seats} seats", DIM
    if engine.unavailable is not None:
        state, colour = f"unavailable: {engine.unavailable}", RED
    elif engine.cooling_until is not None and engine.cooling_until > context.now:
        until = engine.cooling_until
        left = format_countdown(until, context.now)
        state, colour = f"rate-limited until {format_clock_time(until)} ({left} left)", AMBER
    version = one_line(engine.version or "")
    return Row(
        context.row_text(
            TextCell("", 3),
            TextCell(name, 18),
            TextCell(state, None, colour),
            TextCell(version, cell_len(version), DIM),
        )
    )
