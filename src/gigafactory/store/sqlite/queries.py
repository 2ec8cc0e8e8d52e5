"""The SQL of the embedded store: one query a file, named after what it does."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import chain

_FOLDER = resources.files(__package__)

SQL: Mapping[str, str] = {
    file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
    for file in _FOLDER.iterdir()
    if file.name.endswith(".sql") and file.name != "schema.sql"
}
"""Every query by its name."""

SCHEMA: str = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
"""What the migrations add up to."""

MIGRATIONS: tuple[str, ...] = tuple(
    file.read_text(encoding="utf-8")
    for file in sorted(_FOLDER.joinpath("migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
)
"""The steps from an empty file to the newest schema, in order, forward only."""

Row = Sequence[object]

ROWS_MAX = 64
ROWS_EXACT = 16
"""Fewer rows than this go into one statement, whatever their number; more, in few sizes."""

_ROW = re.compile(r"(?<=VALUES )\(\?(?:, \?)*\)")


def for_rows(query: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[object]]]:
    """Statements that write all of these rows, each with the values of its share of them.

    A statement runs beside Python's other threads as long as it lasts: many rows in one leave the
    event loop alone for longer than one row in each, and the database does less for each.
    """
    start = 0
    while (left := len(rows) - start) > 0:
        count = ROWS_MAX if left >= ROWS_MAX else min(left, ROWS_EXACT)
        values = list(chain.from_iterable(rows[start : start + count]))
        yield _repeat_row(query, count), values
        start += count


@cache
def _repeat_row(query: str, count: int) -> str:
    """A query with its one row of parameters repeated."""
    [row] = _ROW.findall(SQL[query])
    return _ROW.sub(", ".join([row] * count), SQL[query])
