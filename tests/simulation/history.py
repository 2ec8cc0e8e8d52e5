"""The record of requests, responses and commits: all that the checker reads."""

import asyncio
import itertools
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gigafactory.domain.errors import Refused
from gigafactory.domain.job.change import RecordChange, Write, events_of
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.leader import Leader


@dataclass(kw_only=True, eq=False)
class Exchange:
    """One request that a coordinator served; moments are logical times that order everything."""

    actor: str
    verb: str
    requested: int
    at: float
    """The simulated second of the request."""
    secret: str = ""
    key: str | None = None
    """The Idempotency-Key."""
    request: dict[str, Any] = field(default_factory=dict)
    node: str = ""
    served: int | None = None
    """The moment of the coordinator's response; None if there was none."""
    response: Any = None
    refusal: Refused | None = None
    received: int | None = None
    """The moment at which the client received the response; None if it was lost."""

    duplicate: bool = False
    """Whether this is a second delivery of a request."""

    @property
    def accepted(self) -> bool:
        """Return whether the coordinator accepted the request, even if the response was lost."""
        return self.served is not None and self.refusal is None


class History:
    """The record of one simulation."""

    def __init__(self) -> None:
        """Start empty."""
        self._moments = itertools.count(1)
        self.exchanges: list[Exchange] = []
        self.times: list[tuple[Event, float]] = []
        """Every event with the simulated second of its commit."""
        self.commits: list[tuple[int, int]] = []
        """For each commit with events: the position of its last event, and the moment."""
        self.errors: list[str] = []
        """Errors that are not refusals."""
        self.gaps: list[tuple[int, datetime, datetime]] = []
        """Times without renewals: the moment of the start, and start and end by the clocks."""
        self.leader: str | None = None
        self.notes: list[str] = []

    def moment(self) -> int:
        """Return the next logical time."""
        return next(self._moments)

    def add(self, exchange: Exchange) -> Exchange:
        """Record a request that reached a coordinator."""
        self.exchanges.append(exchange)
        return exchange

    def committed(self, node: str, writes: tuple[Write, ...], position: int) -> None:
        """Record a commit of a coordinator, up to a position of the feed."""
        if position:
            self.commits.append((position, self.moment()))
        now = asyncio.get_running_loop().time()
        self.times += ((event, now) for event in events_of(writes))
        for write in writes:
            if isinstance(write, RecordChange) and isinstance(write.after, Leader):
                self.leader = write.after.holder
        if self.leader != node and any(event.type == "offered" for event in events_of(writes)):
            self.errors.append(f"9.2: {node} makes an offer while {self.leader} is the leader")

    def note(self, at: float, text: str) -> None:
        """Add a line to the replay of the seed."""
        self.notes.append(f"{at:9.3f} {text}")
