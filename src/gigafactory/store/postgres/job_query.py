"""Which ways a list is read along, and the values that its query binds."""

from collections.abc import Sequence

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.job.job import Stage
from gigafactory.store.postgres.batch import truncate_words
from gigafactory.store.postgres.queries import SQL
from gigafactory.store.rows import split_words

PATHS_MAX = 500
"""So many pairs of product and stage are read side by side; of more, the stages alone."""

SCANNED_MAX = 2_000
"""So many jobs are looked at for words before the index of words is: common ones are in there."""

# Whether a condition leads the list: the operators of the order that its index has.
_OPERATORS = {True: ("~<~", "~>~"), False: ("<", ">")}

_BY_PRODUCT = "listing.product_id = way.product_id"
_BY_STAGE = "standing.stage = way.stage"
_BY_PRODUCT_AND_STAGE = "standing.product_id = way.product_id AND standing.stage = way.stage"

_STAGES = tuple(stage.value for stage in Stage)

Statement = tuple[str, list[object]]
AccessPaths = tuple[str, Sequence[tuple[str | None, str | None]]]

_ALL: AccessPaths = ("true", [(None, None)])


def statements_for(query: JobQuery) -> list[Statement]:
    """The queries that serve a list, with their values: the first that fills the page will do."""
    text = " & ".join(f"'{word}':*" for word in truncate_words(split_words(query.text or "")))
    if not text:
        return [_statement(query, query.limit)]
    # Of a common word the index has too much to sort, and of a rare one the list has too little.
    return [
        _statement(query, max(SCANNED_MAX, query.limit), late=text),
        _statement(query, query.limit, text),
    ]


def _statement(
    query: JobQuery, scanned_max: int, text: str | None = None, late: str | None = None
) -> Statement:
    products = None if query.products is None else list(dict.fromkeys(query.products))
    stages = [stage.value for stage in dict.fromkeys(query.stages)] or None
    along, ways = (
        _ALL if text is not None or _is_selective(query) else _access_paths(query, products, stages)
    )
    less, more = _OPERATORS[along != _ALL[0] or _has_ordered_index(query)]
    statement = SQL["find"].format(
        along=along,
        lead="listing" if along == _BY_PRODUCT or _filters_listing(query) else "standing",
        beyond=more if query.oldest_first else less,
        before=less if query.oldest_first else more,
        order="ASC" if query.oldest_first else "DESC",
    )
    return statement, [
        [product for product, _ in ways],
        [stage for _, stage in ways],
        None if along in {_BY_PRODUCT_AND_STAGE, _BY_PRODUCT} else products,
        None if along in {_BY_PRODUCT_AND_STAGE, _BY_STAGE} else stages,
        query.engine,
        query.name,
        query.repo,
        query.profile,
        query.priority and query.priority.value,
        query.parent_id,
        text,
        query.factory_id or None,
        query.after,
        query.limit,
        scanned_max,
        late,
        list(dict.fromkeys(query.parents)) or None,
    ]


def _access_paths(
    query: JobQuery, products: Sequence[str] | None, stages: Sequence[str] | None
) -> AccessPaths:
    """Product and stage lead where nothing narrower does, or product and priority."""
    if products and query.priority and not stages:
        return _BY_PRODUCT, [(product, None) for product in products]
    if products:
        pairs = [(product, stage) for product in products for stage in stages or _STAGES]
        if len(pairs) <= PATHS_MAX:
            return _BY_PRODUCT_AND_STAGE, pairs
    if stages:
        return _BY_STAGE, [(None, stage) for stage in stages]
    return _ALL


def _is_selective(query: JobQuery) -> bool:
    """Whether few jobs are left by one condition: which one leads is left to the planner."""
    return _has_ordered_index(query) or bool(query.factory_id)


def _has_ordered_index(query: JobQuery) -> bool:
    """Whether a condition has an index that is in the order of the ids."""
    return _filters_listing(query) or query.engine is not None


def _filters_listing(query: JobQuery) -> bool:
    """Whether one of these is a condition on what hardly ever changes."""
    names = (query.name, query.repo, query.profile, query.parent_id)
    if query.parents or any(name is not None for name in names):
        return True
    return query.priority is not None and not query.stages and query.products is None
