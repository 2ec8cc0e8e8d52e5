"""Monthly tallies of observations, one per cell."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    CellUpdate,
    Observation,
    add_observations,
)
from gigafactory.domain.insights.tally import ALL_PRODUCTS, Tally, key_prefix
from gigafactory.domain.job.change import RecordChange

OBSERVATIONS = "crossed"
"""The `by` part of the keys of these tallies."""


def observation_prefix(month: str) -> str:
    """Return the key prefix of all observations of a month, over all products."""
    return key_prefix(ALL_PRODUCTS, OBSERVATIONS, f"m{month}")


def observation_key(month: str, cell: Cell) -> str:
    """Return the tally key of a cell in a month; hashed, as names can be of any length."""
    return observation_prefix(month) + hashlib.sha256(msgspec.json.encode(cell)).hexdigest()[:32]


class ObservationBatch:
    """The sum of many cell updates, to be stored in one commit."""

    def __init__(self) -> None:
        self._added: dict[str, tuple[Cell, Observation]] = {}

    @property
    def keys(self) -> Collection[str]:
        """The keys of the tallies to update."""
        return self._added.keys()

    def add(self, month: str, many: Iterable[CellUpdate]) -> None:
        """Add cell updates of a month."""
        for update in many:
            key = observation_key(month, update.cell)
            known = self._added.get(key, (update.cell, NO_OBSERVATION))[1]
            self._added[key] = (update.cell, add_observations(known, update.observation))

    def writes(self, stored: Mapping[str, Tally]) -> Iterator[RecordChange]:
        """Yield the writes that add the updates to the stored tallies."""
        for key, (cell, observation) in sorted(self._added.items()):
            before = stored.get(key)
            if before is None:
                yield RecordChange(
                    before=None, after=Tally(key=key, cell=cell, observation=observation)
                )
            else:
                more = replace(
                    before,
                    observation=add_observations(before.observation, observation),
                    rev=before.rev + 1,
                )
                yield RecordChange(before=before, after=more)
