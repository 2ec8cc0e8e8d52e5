"""Build the statement of a job list; it reads along the index of the most selective condition."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.store.rows import json_list, split_words
from gigafactory.store.sqlite.queries import SQL

MANY = 5_000
"""Matches are counted up to this number; a condition with more matches rarely leads."""
ARMS_MAX = 64
"""Read at most this many (product, stage) pairs in parallel; with more, read by stage only."""

AMONG = "IN (SELECT value FROM json_each(?))"


class Term(NamedTuple):
    """A condition on a job and its parameter; every text comes from this module, so it is safe."""

    text: str
    value: object


Arm = tuple[Term, ...]
Conditions = Mapping[str, tuple[Term, ...]]

# These leads return jobs in any order, so sort afterwards; the others read an index in id order.
UNORDERED = frozenset({"factory_id", "text"})


def find_rows(connection: sqlite3.Connection, query: JobQuery) -> list[tuple[str, str]]:
    """Return one page of job documents with the expiries of their leases."""
    if query.products == ():
        return []
    statement, values = statement_for(query, choose_lead(connection, query))
    return connection.execute(statement, values).fetchall()


def choose_lead(connection: sqlite3.Connection, query: JobQuery) -> str | None:
    """Return the most selective condition that has an index; None to read along the ids."""
    leads = _leads(query)
    if "text" not in leads and len(leads) <= 1:
        return next(iter(leads), None)
    sizes = {name: _count(connection, name, arms) for name, arms in leads.items()}
    # Sorting many matches by id costs more than checking the words along the list.
    candidates = [name for name in sizes if name != "text" or sizes[name] <= MANY]
    return min(candidates, key=lambda name: sizes[name], default=None)


def _count(connection: sqlite3.Connection, name: str, arms: Sequence[Arm]) -> int:
    """Return how many jobs match a lead, at most MANY + 1."""
    values = [term.value for arm in arms for term in arm]
    statement = SQL["count_matches"]
    if name != "text":
        each = " UNION ALL ".join(f"SELECT 1 FROM job WHERE {_conjunction(arm)}" for arm in arms)  # noqa: S608 - see Term
        statement = SQL["count_candidates"].format(arms=each)
    (size,) = connection.execute(statement, (*values, MANY + 1)).fetchone()
    return int(size)


def statement_for(query: JobQuery, lead: str | None) -> tuple[str, list[object]]:
    """Return the statement for a query along its lead, and its parameters."""
    arms, values = [], []
    order, limit = ("ASC", ">") if query.oldest_first else ("DESC", "<"), int(query.limit)
    id_ = "+id" if lead in UNORDERED else "id"
    rest = [term for name, terms in _conditions(query).items() if name != lead for term in terms]
    for arm in _leads(query)[lead] if lead else [()]:
        led = {term.text.split()[0] for term in arm}
        # A plus sign keeps SQLite from choosing the index of this condition.
        others = [Term(f"+{t.text}", t.value) for t in rest if t.text.split()[0] not in led]
        terms = [*arm, *others]
        if query.after is not None:
            terms.append(Term(f"{id_} {order[1]} ?", query.after))
        where = f"WHERE {_conjunction(terms)}" if terms else ""
        arms.append(SQL["candidates"].format(where=where, id=id_, order=order[0], limit=limit))
        values += [term.value for term in terms]
    page = SQL["find"].format(arms=" UNION ALL ".join(arms), order=order[0], limit=limit)
    return page, values


def _conjunction(terms: Iterable[Term]) -> str:
    return " AND ".join(term.text for term in terms)


def _leads(query: JobQuery) -> dict[str, list[Arm]]:
    """Return the conditions that have an index, each with the arms to read in parallel."""
    leads: dict[str, list[Arm]] = {}
    for column in ("name", "parent_id", "profile", "engine", "repo"):
        value: str | None = getattr(query, column)
        if value is not None:
            leads[column] = [(Term(f"{column} = ?", value),)]
    if query.parents:
        leads["parents"] = [(Term("parent_id = ?", each),) for each in dict.fromkeys(query.parents)]
    if query.factory_id is not None:
        leads["factory_id"] = [(_conditions(query)["factory_id"][0],)]
    if query.text and (words := split_words(query.text)):
        matching = " ".join(f'"{word}" *' for word in words)
        matched = "n IN (SELECT rowid FROM search WHERE search MATCH ?)"
        leads["text"] = [(Term(matched, matching),)]
    if place := _places(query):
        leads["place"] = place
    if query.priority is not None:
        leads["priority"] = [(Term("priority = ?", query.priority.value),)]
    return leads


def _places(query: JobQuery) -> list[Arm]:
    """Return the products times the stages, or only the stages if these are too many."""
    stages = [Term("stage = ?", stage) for stage in dict.fromkeys(s.value for s in query.stages)]
    products = [Term("product_id = ?", id_) for id_ in dict.fromkeys(query.products or ())]
    sides = [side for side in (products, stages) if side]
    if len(products) * max(len(stages), 1) > ARMS_MAX:
        sides = [stages] if stages else []
    return [tuple(arm) for arm in product(*sides)] if sides else []


def _conditions(query: JobQuery) -> Conditions:
    """Return all conditions of a query by name."""
    equal = {
        name: getattr(query, name) for name in ("name", "parent_id", "profile", "engine", "repo")
    }
    conditions: dict[str, tuple[Term, ...]] = {
        name: (Term(f"{name} = ?", value),) for name, value in equal.items() if value is not None
    }
    if query.parents:
        conditions["parents"] = (Term(f"parent_id {AMONG}", json_list(query.parents)),)
    if query.factory_id is not None:
        leased = "id IN (SELECT job_id FROM lease WHERE factory_id = ?)"
        conditions["factory_id"] = (Term(leased, query.factory_id),)
    if query.priority is not None:
        conditions["priority"] = (Term("priority = ?", query.priority.value),)
    if query.products is not None:
        conditions["products"] = (Term(f"product_id {AMONG}", json_list(query.products)),)
    if query.stages:
        conditions["stages"] = (Term(f"stage {AMONG}", json_list([s.value for s in query.stages])),)
    # Each search word is the prefix of a word of the job; every job word follows a blank.
    conditions["text"] = tuple(
        Term("instr(' ' || words, ?) > 0", f" {word}") for word in split_words(query.text or "")
    )
    return conditions
