"""The sheet of docs/capacity.md: its formulas with what this run has measured."""

import math
from typing import NamedTuple

import life
from table import Row, Section, size

LOADS = (100, 200, 1_000, 2_000, 10_000, 20_000)
RUN_S = 600
BUSY = 0.7
SEATS_A_FACTORY = 4
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
    "of them heartbeats + renewals + log chunks + steps",
    "SQLite a day + answers",
    "PostgreSQL a day + answers",
    "its WAL a day",
    "logs a day",
)


class Bytes(NamedTuple):
    """What a job leaves in a store."""

    kept: float
    answers: float
    """For a day."""


def sheet(embedded: Bytes, shared: Bytes, wal: float) -> Section:
    """A row for each load."""
    rows = [_row(load, embedded, shared, wal) for load in LOADS]
    note = (
        f"By the formulas of [capacity.md](capacity.md), for runs of {RUN_S // 60} minutes, logs of"
        f" {size(LOG_BYTES)} sent every {LOG_EVERY_S} s, and {SEATS_A_FACTORY} seats a\nfactory"
        f" that are busy for {BUSY:.0%} of the time. Answers go after a day: they"
        " do not add up."
    )
    return Section("Capacity", rows, note, HEADS)


def _row(load: int, embedded: Bytes, shared: Bytes, wal: float) -> Row:
    running = load / 3600 * RUN_S
    seats = math.ceil(running / BUSY)
    factories = math.ceil(seats / SEATS_A_FACTORY)
    asked = (
        factories / HEARTBEAT_S,
        running / RENEW_S,
        running / LOG_EVERY_S,
        load / 3600 * life.REQUESTS,
    )
    daily = load * 24
    return (
        f"{load:,}",
        f"{running:,.0f}",
        f"{seats:,}",
        f"{factories:,}",
        f"{sum(asked):,.1f}",
        " + ".join(f"{each:,.1f}" for each in asked),
        *(f"{size(daily * s.kept)} + {size(daily * s.answers)}" for s in (embedded, shared)),
        size(daily * wal),
        size(daily * LOG_BYTES),
    )
