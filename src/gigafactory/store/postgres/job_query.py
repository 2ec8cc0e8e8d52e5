"""Choose the access paths of a job list, and build its statement and parameters."""

from collections.abc import Sequence

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.job.job import Stage
from gigafactory.store.postgres.batch import truncate_words
from gigafactory.store.postgres.queries import SQL
from gigafactory.store.rows import split_words

PATHS_MAX = 500
"""Read at most this many (product, stage) pairs in parallel; with more, read by stage only."""

SCANNED_JOBS = 2_000
"""Check this many jobs for the words before using the word index: enough for common words."""

# By whether an index on a condition provides the order: the comparison operators of that index.
_OPERATORS = {True: ("~<~", "~>~"), False: ("<", ">")}

_BY_PRODUCT = "listing.product_id = way.product_id"
_BY_STAGE = "standing.stage = way.stage"
_BY_PRODUCT_AND_STAGE = "standing.product_id = way.product_id AND standing.stage = way.stage"

_STAGES = tuple(stage.value for stage in Stage)

Statement = tuple[str, list[object]]
AccessPaths = tuple[str, Sequence[tuple[str | None, str | None]]]

_ALL: AccessPaths = ("true", [(None, None)])


def statements_for(query: JobQuery) -> list[Statement]:
    """Return the statements for a list, to run until one of them fills the page."""
    text = " & ".join(f"'{word}':*" for word in truncate_words(split_words(query.text or "")))
    if not text:
        return [_statement(query, query.limit)]
    # The word index has too many matches of a common word to sort; the list too few of a rare one.
    return [
        _statement(query, max(SCANNED_JOBS, query.limit), filter_text=text),
        _statement(query, query.limit, index_text=text),
    ]


def _statement(
    query: JobQuery,
    scanned_jobs: int,
    index_text: str | None = None,
    filter_text: str | None = None,
) -> Statement:
    products = None if query.products is None else list(dict.fromkeys(query.products))
    stages = [stage.value for stage in dict.fromkeys(query.stages)] or None
    along, paths = (
        _ALL
        if index_text is not None or _is_selective(query)
        else _access_paths(query, products, stages)
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
        [product for product, _ in paths],
        [stage for _, stage in paths],
        None if along in {_BY_PRODUCT_AND_STAGE, _BY_PRODUCT} else products,
        None if along in {_BY_PRODUCT_AND_STAGE, _BY_STAGE} else stages,
        query.engine,
        query.name,
        query.repo,
        query.profile,
        query.priority and query.priority.value,
        query.parent_id,
        index_text,
        query.factory_id or None,
        query.after,
        query.limit,
        scanned_jobs,
        filter_text,
        list(dict.fromkeys(query.parents)) or None,
    ]


def _access_paths(
    query: JobQuery, products: Sequence[str] | None, stages: Sequence[str] | None
) -> AccessPaths:
    """Return the paths by product and stage, by product and priority, or by stage."""
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
    """Return whether one condition leaves few jobs; the planner then chooses the index."""
    return _has_ordered_index(query) or bool(query.factory_id)


def _has_ordered_index(query: JobQuery) -> bool:
    """Return whether a condition has an index that is ordered by job id."""
    return _filters_listing(query) or query.engine is not None


def _filters_listing(query: JobQuery) -> bool:
    """Return whether a condition is on a column of `listing`, whose rows rarely change."""
    names = (query.name, query.repo, query.profile, query.parent_id)
    if query.parents or any(name is not None for name in names):
        return True
    return query.priority is not None and not query.stages and query.products is None
