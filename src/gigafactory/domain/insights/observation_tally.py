"""Crossed tallies: the lessons of a month, by all that tries have in common at once."""

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
"""What these tallies are by."""


def observation_prefix(month: str) -> str:
    """How the keys of all lessons of a month begin; those of all products are learned from."""
    return key_prefix(ALL_PRODUCTS, OBSERVATIONS, f"m{month}")


def observation_key(month: str, cell: Cell) -> str:
    """Where the lessons of a cell in a month are kept: a cell has names of any kind and length."""
    return observation_prefix(month) + hashlib.sha256(msgspec.json.encode(cell)).hexdigest()[:32]


class ObservationBatch:
    """What many slips teach together, ready to be kept in one commit."""

    def __init__(self) -> None:
        self._added: dict[str, tuple[Cell, Observation]] = {}

    @property
    def keys(self) -> Collection[str]:
        """Where all that is kept."""
        return self._added.keys()

    def add(self, month: str, many: Iterable[CellUpdate]) -> None:
        """Have these counted too."""
        for told in many:
            key = observation_key(month, told.cell)
            known = self._added.get(key, (told.cell, NO_OBSERVATION))[1]
            self._added[key] = (told.cell, add_observations(known, told.observation))

    def writes(self, known: Mapping[str, Tally]) -> Iterator[RecordChange]:
        """The writes that add all this to what is kept."""
        for key, (cell, observation) in sorted(self._added.items()):
            before = known.get(key)
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
