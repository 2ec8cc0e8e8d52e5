"""Statements for many rows: each row is written once, in few statements of few sizes."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.store.sqlite.queries import ROWS_EXACT, ROWS_MAX, SCHEMA, for_rows

WRITES = {
    "count_jobs": 3,
    "drop_dep": 2,
    "end_lease": 2,
    "forget_hold": 2,
    "free_hold": 1,
    "insert_dep": 2,
    "insert_event": 9,
    "insert_job": 13,
    "insert_spec": 3,
    "move_job": 6,
    "relist_job": 13,
    "remove_record": 2,
    "take_hold": 2,
    "update_job": 4,
    "write_lease": 5,
    "write_record": 6,
    "write_seen": 2,
}
"""Statements that write many rows at once, with their numbers of columns."""


@given(st.integers(min_value=0, max_value=3 * ROWS_MAX))
def test_every_row_is_in_one_statement_in_order(count: int) -> None:
    rows = [(f"key-{n}", f"job-{n}") for n in range(count)]
    made = list(for_rows("take_hold", rows))
    assert [value for _, values in made for value in values] == [v for row in rows for v in row]
    for statement, values in made:
        assert statement.count("(?, ?)") == len(values) // 2


@given(st.integers(min_value=0, max_value=3 * ROWS_MAX))
def test_number_of_statement_sizes_is_small(count: int) -> None:
    sizes = [len(values) for _, values in for_rows("free_hold", [(n,) for n in range(count)])]
    assert all(size == ROWS_MAX or size <= ROWS_EXACT for size in sizes)


@pytest.mark.parametrize(("query", "columns"), WRITES.items())
@pytest.mark.parametrize("count", [1, 7, ROWS_MAX])
def test_every_statement_finds_its_rows_by_key(query: str, columns: int, count: int) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    rows = [tuple(n * columns + column for column in range(columns)) for n in range(count)]
    [(statement, values)] = for_rows(query, rows)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    connection.close()
    given = ("SCAN given", "SCAN CONSTANT ROW", f"SCAN {count} CONSTANT ROWS")
    read = [step for step in plan if step.startswith("SCAN") and step not in given]
    assert read == [], "a table is read from end to end"


def test_last_statement_decides_who_holds_a_key() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    keys = [f"seat/{n}" for n in range(2 * ROWS_MAX + 3)]
    for query, rows in (
        ("take_hold", [(key, "one") for key in keys]),
        ("free_hold", [(key,) for key in keys[::2]]),
        ("take_hold", [(key, "other") for key in keys[::4]]),
    ):
        for statement, values in for_rows(query, rows):
            connection.execute(statement, values)
    left = dict(connection.execute("SELECT key, job_id FROM hold"))
    connection.close()
    expected = dict.fromkeys(keys[1::2], "one") | dict.fromkeys(keys[::4], "other")
    assert left == expected
