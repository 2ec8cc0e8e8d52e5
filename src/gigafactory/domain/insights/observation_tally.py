"""Crossed tallies: the lessons of a month, by all that tries have in common at once."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.observation import NO_LESSON, Cell, Lesson, Told, plus
from gigafactory.domain.insights.tally import EVERYTHING, Tally, page
from gigafactory.domain.job.change import RecordChange

CROSSED = "crossed"
"""What these tallies are by."""


def crossed_page(month: str) -> str:
    """How the keys of all lessons of a month begin; those of all products are learned from."""
    return page(EVERYTHING, CROSSED, f"m{month}")


def crossed_key(month: str, cell: Cell) -> str:
    """Where the lessons of a cell in a month are kept: a cell has names of any kind and length."""
    return crossed_page(month) + hashlib.sha256(msgspec.json.encode(cell)).hexdigest()[:32]


class Lessons:
    """What many slips teach together, ready to be kept in one commit."""

    def __init__(self) -> None:
        self._added: dict[str, tuple[Cell, Lesson]] = {}

    @property
    def keys(self) -> Collection[str]:
        """Where all that is kept."""
        return self._added.keys()

    def add(self, month: str, many: Iterable[Told]) -> None:
        """Have these counted too."""
        for told in many:
            key = crossed_key(month, told.cell)
            known = self._added.get(key, (told.cell, NO_LESSON))[1]
            self._added[key] = (told.cell, plus(known, told.lesson))

    def saved(self, known: Mapping[str, Tally]) -> Iterator[RecordChange]:
        """The writes that add all this to what is kept."""
        for key, (cell, lesson) in sorted(self._added.items()):
            before = known.get(key)
            if before is None:
                yield RecordChange(before=None, after=Tally(key=key, cell=cell, lesson=lesson))
            else:
                more = replace(before, lesson=plus(before.lesson, lesson), rev=before.rev + 1)
                yield RecordChange(before=before, after=more)
