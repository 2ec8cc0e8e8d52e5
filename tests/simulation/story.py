"""A history as a person reads it: what was asked, answered and stored, in its order."""

from collections.abc import Iterator

from tests.simulation.history import Exchange
from tests.simulation.tales import Scene, Tale, tell
from tests.simulation.world import World


def story(world: World) -> list[str]:
    """One line for each request and each event, oldest first."""
    tales = tell(world.store._events, world.history.commits)  # noqa: SLF001 - seen from outside
    lines = [*_events(tales), *((made.asked, _asked(made)) for made in world.history.exchanges)]
    return [f"{moment:6d} {line}" for moment, line in sorted(lines)]


def _events(tales: dict[str, Tale]) -> Iterator[tuple[int, str]]:
    for tale in tales.values():
        for scene in tale.scenes:
            yield scene.moment, f"    {_happened(tale, scene)}"


def _happened(tale: Tale, scene: Scene) -> str:
    event = scene.event
    data = {key: value for key, value in event.data.items() if key not in {"decision", "deps"}}
    return f"{tale.title} {event.seq} {event.type} by {event.actor} -> {scene.stage} {data}"


def _asked(made: Exchange) -> str:
    told = made.request.get("report") or {k: v for k, v in made.request.items() if k != "files"}
    answer = type(made.refusal).__name__ if made.refusal else "yes" if made.served else "nothing"
    heard = "" if made.heard else ", unheard"
    again = ", doubled" if made.doubled else ""
    return (
        f"{made.at:8.3f} {made.who} at {made.node}: {made.verb} {told}"
        f" [{made.key}] -> {answer} at {made.served}{heard}{again}"
    )
