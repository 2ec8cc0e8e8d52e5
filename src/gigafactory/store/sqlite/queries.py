"""The SQL of the SQLite store: one query per file, by file name."""

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
"""All queries by name."""

SCHEMA: str = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
"""The schema after all migrations."""

MIGRATIONS: tuple[str, ...] = tuple(
    file.read_text(encoding="utf-8")
    for file in sorted(_FOLDER.joinpath("migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
)
"""The steps from an empty file to the current schema, in order."""

Row = Sequence[object]

ROWS_MAX = 64
ROWS_EXACT = 16
"""Up to this many rows go into a statement of exactly their number."""

_ROW = re.compile(r"(?<=VALUES )\(\?(?:, \?)*\)")


def for_rows(query: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[object]]]:
    """Return statements that write all rows, each with the values of its rows.

    A statement runs without Python's global lock: one statement with many rows leaves more time
    to other threads than many statements, and costs the database less per row.
    """
    start = 0
    while (left := len(rows) - start) > 0:
        count = ROWS_MAX if left >= ROWS_MAX else min(left, ROWS_EXACT)
        values = list(chain.from_iterable(rows[start : start + count]))
        yield _repeat_row(query, count), values
        start += count


@cache
def _repeat_row(query: str, count: int) -> str:
    [row] = _ROW.findall(SQL[query])
    return _ROW.sub(", ".join([row] * count), SQL[query])
