"""Requests to stop a run early, and their reasons."""

import asyncio
from enum import StrEnum


class StopReason(StrEnum):
    """Why a run is stopped from outside."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    FENCED = "fenced"
    BUDGET = "budget"
    LIMITED = "limited"
    """The engine would wait for hours for its limit to reset: give up the seat instead."""


class StopSignal:
    """A stop request for one run.

    The first reason wins, except that FENCED overrides all others.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason: StopReason | None = None
        self.detail = ""

    def request(self, reason: StopReason, detail: str = "") -> None:
        """Stop the run for this reason."""
        if self.reason is None or reason is StopReason.FENCED:
            self.reason, self.detail = reason, detail
        self.event.set()
