"""Gauges of the fleet, computed from memory without store queries."""

from collections import Counter
from datetime import datetime

import msgspec

from gigafactory.coordinator.core.counters import Counters, Labels
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.fleet.factory import Factory, is_online
from gigafactory.domain.fleet.unroutable import is_unroutable
from gigafactory.domain.job.job import Step

ASKS_MAX = 1000
"""Job classes checked for routability at most."""


class EngineSeatGauge(msgspec.Struct):
    """Seats of one engine on the online factories."""

    total: int = 0
    taken: int = 0
    unavailable: int = 0
    """Factories on which the engine is unavailable."""
    cooling: int = 0
    """Factories on which the engine cools down after a rate limit."""


class Gauges(msgspec.Struct, kw_only=True):
    """A snapshot of the gauges."""

    waiting: dict[Labels, int] = msgspec.field(default_factory=dict)
    """Ready jobs by product and priority."""
    oldest_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Longest wait of a ready job by product, without jobs that wait for a lock."""
    unroutable: int = 0
    seat_seconds: dict[str, float] = msgspec.field(default_factory=dict)
    """Recent seat time by product, divided by its fair share."""
    seats: dict[str, EngineSeatGauge] = msgspec.field(default_factory=dict)
    halted: dict[str, bool] = msgspec.field(default_factory=dict)


def read_gauges(index: Index, counters: Counters, now: datetime) -> Gauges:
    """Read all gauges; the cost grows with job classes and factories, not with jobs."""
    index.queue.advance(now)
    gauges = Gauges()
    _read_queue(gauges, index, counters, now)
    for product_id in {product for product, _ in gauges.waiting} | set(index.queue_versions):
        if product_id != "*":
            used = index.fleet.seat_usage(product_id, now)
            name = counters.product(product_id)
            gauges.seat_seconds[name] = max(used, gauges.seat_seconds.get(name, 0.0))
    for factory in index.factories.values():
        if is_online(index.vitals.get(factory.id), now):
            _read_engines(gauges, index, counters, factory, now)
    for switch in index.switches.values():
        gauges.halted[counters.product(switch.product_id)] = switch.halted
    return gauges


def _read_queue(gauges: Gauges, index: Index, counters: Counters, now: datetime) -> None:
    waiting: Counter[Labels] = Counter()
    for asks, group in enumerate(index.queue.classes()):
        kind = group.job_class
        product = counters.product(kind.product_id)
        waiting[product, kind.priority] += group.waiting
        first = group.ready.head()
        if first is not None:
            waited = max(now.timestamp() - first.waiting_since, 0.0)
            gauges.oldest_s[product] = max(waited, gauges.oldest_s.get(product, 0.0))
        counted = kind.step is Step.RUN and asks < ASKS_MAX
        if counted and is_unroutable(kind.ask, kind.product_id, index.fleet):
            gauges.unroutable += group.members
    gauges.waiting = dict(waiting)


def _read_engines(
    gauges: Gauges, index: Index, counters: Counters, factory: Factory, now: datetime
) -> None:
    for name, engine in factory.engines.items():
        seats = gauges.seats.setdefault(counters.engine(name), EngineSeatGauge())
        seats.total += engine.seats
        seats.taken += index.fleet.seat_map.seats_taken(factory.id, name)
        seats.unavailable += engine.unavailable is not None
        seats.cooling += engine.unavailable is None and not engine.is_ready(now)
