"""Seats that an accepted offer takes."""

from typing import Any

import msgspec


class SeatReservation(msgspec.Struct, frozen=True, kw_only=True):
    """The seats on one factory that an accepted offer takes: the unique keys of its lease."""

    job_id: str
    factory_id: str
    engine: str | None
    seats: tuple[str, ...]
    decision: dict[str, Any]
    """The scheduling decision, as it was recorded with the offer."""
