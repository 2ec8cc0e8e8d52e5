"""What clients asked and were told, and when the store took what in: all that the judge may see."""

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
    """One request as one coordinator served it; `moment`s are places in the order of all things."""

    who: str
    verb: str
    asked: int
    at: float
    """The simulated second at which it was asked."""
    secret: str = ""
    key: str | None = None
    """The Idempotency-Key."""
    request: dict[str, Any] = field(default_factory=dict)
    node: str = ""
    served: int | None = None
    """The moment at which the coordinator had its answer; None when it never had one."""
    answer: Any = None
    refusal: Refused | None = None
    heard: int | None = None
    """The moment at which the client had the answer; None when it was lost on the way."""

    doubled: bool = False
    """Whether this is a second delivery of a request."""

    @property
    def accepted(self) -> bool:
        """Whether the coordinator said yes, heard or not."""
        return self.served is not None and self.refusal is None


class History:
    """The record of one simulated world."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._moments = itertools.count(1)
        self.exchanges: list[Exchange] = []
        self.times: list[tuple[Event, float]] = []
        """Every event, and the second of the loop at which it was stored."""
        self.commits: list[tuple[int, int]] = []
        """For each commit with events: the position of its last event, and the moment."""
        self.broken: list[str] = []
        """What broke in a way that no refusal explains."""
        self.gaps: list[tuple[int, datetime, datetime]] = []
        """A time without renewals: its start, and its begin and end by the clocks."""
        self.leader: str | None = None
        self.notes: list[str] = []

    def moment(self) -> int:
        """The next place in the order of all things."""
        return next(self._moments)

    def asked(self, exchange: Exchange) -> Exchange:
        """Note a request that reached a coordinator."""
        self.exchanges.append(exchange)
        return exchange

    def committed(self, node: str, writes: tuple[Write, ...], position: int) -> None:
        """Note that the store has taken in what a coordinator wrote, up to a position."""
        if position:
            self.commits.append((position, self.moment()))
        now = asyncio.get_running_loop().time()
        self.times += ((event, now) for event in events_of(writes))
        for write in writes:
            if isinstance(write, RecordChange) and isinstance(write.after, Leader):
                self.leader = write.after.holder
        if self.leader != node and any(event.type == "offered" for event in events_of(writes)):
            self.broken.append(f"9.2: {node} offers, and {self.leader} leads")

    def note(self, at: float, text: str) -> None:
        """Add a note to the replay of the seed."""
        self.notes.append(f"{at:9.3f} {text}")
