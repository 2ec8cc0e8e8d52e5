"""The factories: how each is, what its engines do, and what runs there."""

from collections.abc import Iterator

from rich.cells import cell_len

from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.system.formatting import format_age
from gigafactory.tui.views import Scene, nothing
from gigafactory.tui.views.jobs import job_row
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell, clock, countdown, one_line
from gigafactory.wire.fleet import EngineView, FactoryView
from gigafactory.wire.jobs import JobView

WELL, POOR = 0.7, 0.3


def factories(scene: Scene) -> list[Row]:
    """Every factory with its engines and its jobs."""
    rows: list[Row] = []
    for factory in scene.seen.factories:
        here = [j for j in scene.seen.jobs if j.lease and j.lease.factory_id == factory.id]
        words = (factory.id, factory.os, *factory.labels, *factory.engines, *factory.capabilities)
        if scene.has_words(*words, *(job.name for job in here)):
            rows += _card(scene, factory, here)
    return rows or nothing(scene, scene.hints.no_factories)


def _card(scene: Scene, factory: FactoryView, here: list[JobView]) -> Iterator[Row]:
    state, colour = _state(scene, factory)
    well = f"health {factory.health:.0%}" if factory.online else ""
    poor = RED if factory.health < POOR else AMBER if factory.health < WELL else DIM
    used = f"{len(here)}/{factory.slots} slots" if factory.slots else ""
    text = scene.line(
        Cell("●" if factory.online else "○", 1, colour),
        Cell(factory.id, 20, "bold"),
        Cell(state, 20, colour),
        Cell(well, 12, poor),
        Cell(used, 10),
        Cell(" ".join(filter(None, (factory.os, factory.version))), None, DIM),
    )
    yield Row(text, f"factory/{factory.id}", factory)
    for name, engine in sorted(factory.engines.items()):
        yield _engine(scene, name, engine, here)
    for job in here:
        yield job_row(scene, job, indent=3, key=f"{factory.id}/{job.id}")


def _state(scene: Scene, factory: FactoryView) -> tuple[str, str]:
    if not factory.online:
        seen = factory.last_seen
        return f"offline for {format_age(seen, scene.now)}" if seen else "never seen", RED
    return ("draining", AMBER) if factory.draining else ("online", "green")


def _engine(scene: Scene, name: str, engine: EngineView, here: list[JobView]) -> Row:
    building = [job for job in here if job.stage is not Stage.TESTING]
    used = sum(base_engine(job.engine or "") == name for job in building)
    said, colour = f"{used}/{engine.seats} seats", DIM
    if engine.unavailable is not None:
        said, colour = f"cannot be used: {engine.unavailable}", RED
    elif engine.cooling_until is not None and engine.cooling_until > scene.now:
        until = engine.cooling_until
        left = countdown(until, scene.now)
        said, colour = f"rests for {left}: rate limited, until {clock(until)}", AMBER
    version = one_line(engine.version or "")
    return Row(
        scene.line(
            Cell("", 3),
            Cell(name, 18),
            Cell(said, None, colour),
            Cell(version, cell_len(version), DIM),
        )
    )
