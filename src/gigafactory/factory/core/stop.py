"""Why a run must end before it is done: said once, and heard by whatever runs at that moment."""

import asyncio
from enum import StrEnum


class StopReason(StrEnum):
    """The reasons for which a run is stopped from outside."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    FENCED = "fenced"
    BUDGET = "budget"
    LIMITED = "limited"
    """The engine would wait for hours, where its seat may as well be given up."""


class StopSignal:
    """Begins unset; the first reason stands, but being fenced outdoes all others."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason: StopReason | None = None
        self.detail = ""

    def request(self, reason: StopReason, detail: str = "") -> None:
        """End the run for this reason."""
        if self.reason is None or reason is StopReason.FENCED:
            self.reason, self.detail = reason, detail
        self.event.set()
