"""Observations for the tests of learned routing."""

import math

from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures

NOTES = TaskFeatures("notes", "notes", "coder", "python", "small")


def an_observation(
    tries: int = 1, passes: int = 1, *, seconds: float = 600.0, usd: float | None = 0.5
) -> Observation:
    """Return an observation of tries with the same duration and cost."""
    log_ms = round(1000 * math.log(seconds * 1000))
    log_nanos = round(1000 * math.log(usd * 1e9)) if usd is not None else 0
    priced = tries if usd is not None else 0
    return Observation(
        tries=tries,
        passes=passes,
        log_ms=tries * log_ms,
        log_ms_squared=tries * log_ms**2,
        priced=priced,
        log_nanos=priced * log_nanos,
        log_nanos_squared=priced * log_nanos**2,
    )


def a_cell(engine: str = "claude", factory: str = "mac-1", task: TaskFeatures = NOTES) -> Cell:
    """Return the cell of a task with an engine on a factory."""
    return Cell(task, RoutingChoice(engine, factory, "m"))


KNOWN = {
    a_cell("claude"): an_observation(200, 80),
    a_cell("codex"): an_observation(200, 190, usd=0.1),
}
"""Codex passes far more often at the first try, for less."""
