"""Which statement serves a list: the condition that leaves fewest jobs leads along its index."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.store.rows import json_list, split_words
from gigafactory.store.sqlite.queries import SQL

MANY = 5_000
"""Matches are counted up to here; a condition with more does not lead if another has fewer."""
ARMS_MAX = 64
"""So many products times stages are read side by side; of more, the stages alone."""

AMONG = "IN (SELECT value FROM json_each(?))"


class Term(NamedTuple):
    """One condition on a job, with the value that it binds; every text is of this module."""

    text: str
    value: object


Arm = tuple[Term, ...]
Conditions = Mapping[str, tuple[Term, ...]]

# What names jobs one by one is sorted afterwards; all else goes along an index of ids.
UNORDERED = frozenset({"factory_id", "text"})


def find_rows(connection: sqlite3.Connection, query: JobQuery) -> list[tuple[str, str]]:
    """One page of documents with their expiries."""
    if query.products == ():
        return []
    statement, values = statement_for(query, choose_lead(connection, query))
    return connection.execute(statement, values).fetchall()


def choose_lead(connection: sqlite3.Connection, query: JobQuery) -> str | None:
    """The name of the condition that leaves fewest jobs; None where the ids themselves must do."""
    leads = _leads(query)
    if "text" not in leads and len(leads) <= 1:
        return next(iter(leads), None)
    sizes = {name: _count(connection, name, arms) for name, arms in leads.items()}
    # Sorting many by their ids costs more than to look for the words along the list.
    able = [name for name in sizes if name != "text" or sizes[name] <= MANY]
    return min(able, key=lambda name: sizes[name], default=None)


def _count(connection: sqlite3.Connection, name: str, arms: Sequence[Arm]) -> int:
    """How many jobs a lead leaves, counted no further than one past many."""
    values = [term.value for arm in arms for term in arm]
    counted = SQL["count_matches"]
    if name != "text":
        each = " UNION ALL ".join(f"SELECT 1 FROM job WHERE {_conjunction(arm)}" for arm in arms)  # noqa: S608 - see Term
        counted = SQL["count_candidates"].format(arms=each)
    (size,) = connection.execute(counted, (*values, MANY + 1)).fetchone()
    return int(size)


def statement_for(query: JobQuery, lead: str | None) -> tuple[str, list[object]]:
    """The statement that serves this query along its lead, with its values."""
    arms, values = [], []
    order, limit = ("ASC", ">") if query.oldest_first else ("DESC", "<"), int(query.limit)
    id_ = "+id" if lead in UNORDERED else "id"
    rest = [term for name, terms in _conditions(query).items() if name != lead for term in terms]
    for arm in _leads(query)[lead] if lead else [()]:
        led = {term.text.split()[0] for term in arm}
        # A plus sign keeps a condition from choosing the index.
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
    """The conditions that have an index, each as the arms to go along side by side."""
    leads: dict[str, list[Arm]] = {}
    for column in ("name", "parent_id", "profile", "engine", "repo"):
        value: str | None = getattr(query, column)
        if value is not None:
            leads[column] = [(Term(f"{column} = ?", value),)]
    if query.parents:
        leads["parents"] = [(Term("parent_id = ?", each),) for each in dict.fromkeys(query.parents)]
    if query.factory_id is not None:
        leads["factory_id"] = [(_conditions(query)["factory_id"][0],)]
    if query.text and (found := split_words(query.text)):
        matching = " ".join(f'"{word}" *' for word in found)
        held = "n IN (SELECT rowid FROM search WHERE search MATCH ?)"
        leads["text"] = [(Term(held, matching),)]
    if place := _places(query):
        leads["place"] = place
    if query.priority is not None:
        leads["priority"] = [(Term("priority = ?", query.priority.value),)]
    return leads


def _places(query: JobQuery) -> list[Arm]:
    """The products times the stages, or the stages alone where those are too many."""
    stages = [Term("stage = ?", stage) for stage in dict.fromkeys(s.value for s in query.stages)]
    products = [Term("product_id = ?", id_) for id_ in dict.fromkeys(query.products or ())]
    sides = [side for side in (products, stages) if side]
    if len(products) * max(len(stages), 1) > ARMS_MAX:
        sides = [stages] if stages else []
    return [tuple(way) for way in product(*sides)] if sides else []


def _conditions(query: JobQuery) -> Conditions:
    """All that is asked of a job, by the name of the condition."""
    asked = {
        name: getattr(query, name) for name in ("name", "parent_id", "profile", "engine", "repo")
    }
    conditions: dict[str, tuple[Term, ...]] = {
        name: (Term(f"{name} = ?", value),) for name, value in asked.items() if value is not None
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
    # Each word begins a word of the job; those stand in a row, with a blank before each.
    conditions["text"] = tuple(
        Term("instr(' ' || words, ?) > 0", f" {word}") for word in split_words(query.text or "")
    )
    return conditions
