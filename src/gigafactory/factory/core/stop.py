"""Why a run must end before it is done: said once, and heard by whatever runs at that moment."""

import asyncio
from enum import StrEnum


class Why(StrEnum):
    """The reasons for which a run is stopped from outside."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    FENCED = "fenced"
    BUDGET = "budget"
    LIMITED = "limited"
    """The engine would wait for hours, where its seat may as well be given up."""


class Stop:
    """Begins unset; the first reason stands, but being fenced outdoes all others."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.why: Why | None = None
        self.detail = ""

    def ask(self, why: Why, detail: str = "") -> None:
        """End the run for this reason."""
        if self.why is None or why is Why.FENCED:
            self.why, self.detail = why, detail
        self.event.set()
