"""The readable transcript of a history: requests, responses and events in order."""

from collections.abc import Iterator

from tests.simulation.history import Exchange
from tests.simulation.job_histories import JobHistory, JobState, read_histories
from tests.simulation.simulation import Simulation


def transcript(simulation: Simulation) -> list[str]:
    """Return one line for each request and each event, oldest first."""
    histories = read_histories(simulation.store._events, simulation.history.commits)  # noqa: SLF001 - the checker reads internal state
    lines = [
        *_events(histories),
        *(
            (exchange.requested, _request_line(exchange))
            for exchange in simulation.history.exchanges
        ),
    ]
    return [f"{moment:6d} {line}" for moment, line in sorted(lines)]


def _events(histories: dict[str, JobHistory]) -> Iterator[tuple[int, str]]:
    for history in histories.values():
        for state in history.states:
            yield state.moment, f"    {_event_line(history, state)}"


def _event_line(history: JobHistory, state: JobState) -> str:
    event = state.event
    data = {key: value for key, value in event.data.items() if key not in {"decision", "deps"}}
    return f"{history.title} {event.seq} {event.type} by {event.actor} -> {state.stage} {data}"


def _request_line(exchange: Exchange) -> str:
    request = exchange.request.get("report") or {
        k: v for k, v in exchange.request.items() if k != "files"
    }
    response = (
        type(exchange.refusal).__name__
        if exchange.refusal
        else "yes"
        if exchange.served
        else "nothing"
    )
    received = "" if exchange.received else ", response lost"
    repeated = ", duplicate" if exchange.duplicate else ""
    return (
        f"{exchange.at:8.3f} {exchange.actor} at {exchange.node}: {exchange.verb} {request}"
        f" [{exchange.key}] -> {response} at {exchange.served}{received}{repeated}"
    )
