"""The capacity table: the formulas of docs/capacity.md with the measurements of this run."""

import math
from typing import NamedTuple

import job_lifecycle
from table import Row, Section, size

LOADS = (100, 200, 1_000, 2_000, 10_000, 20_000)
RUN_S = 600
BUSY = 0.7
SEATS_PER_FACTORY = 4
HEARTBEAT_S = 15
RENEW_S = 20
RENEWALS = RUN_S // RENEW_S
LOG_BYTES = 1_000_000
LOG_EVERY_S = 10
HEADS = (
    "jobs/h",
    "jobs running",
    "seats",
    "factories",
    "requests/s",
    "heartbeats + renewals + log chunks + steps",
    "SQLite per day + responses",
    "PostgreSQL per day + responses",
    "WAL per day",
    "logs per day",
)


class Bytes(NamedTuple):
    """Bytes that a job adds to a store."""

    kept: float
    responses: float
    """Stored for replies to repeated requests, deleted after a day."""


def sheet(embedded: Bytes, shared: Bytes, wal: float) -> Section:
    """Return the table with one row per load."""
    rows = [_row(load, embedded, shared, wal) for load in LOADS]
    note = (
        f"Calculated with the formulas of [capacity.md](capacity.md) for runs of {RUN_S // 60}"
        f" minutes, {size(LOG_BYTES)} of log per run in chunks every {LOG_EVERY_S} s,\nand"
        f" {SEATS_PER_FACTORY} seats per factory, busy {BUSY:.0%} of the time. Stored responses are"
        " deleted after a day and do not accumulate."
    )
    return Section("Capacity", rows, note, HEADS)


def _row(load: int, embedded: Bytes, shared: Bytes, wal: float) -> Row:
    running = load / 3600 * RUN_S
    seats = math.ceil(running / BUSY)
    factories = math.ceil(seats / SEATS_PER_FACTORY)
    requests = (
        factories / HEARTBEAT_S,
        running / RENEW_S,
        running / LOG_EVERY_S,
        load / 3600 * job_lifecycle.REQUESTS,
    )
    daily = load * 24
    return (
        f"{load:,}",
        f"{running:,.0f}",
        f"{seats:,}",
        f"{factories:,}",
        f"{sum(requests):,.1f}",
        " + ".join(f"{each:,.1f}" for each in requests),
        *(f"{size(daily * s.kept)} + {size(daily * s.responses)}" for s in (embedded, shared)),
        size(daily * wal),
        size(daily * LOG_BYTES),
    )
