"""The contract of job lists: all filters, both directions, pagination."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.domain.job.job import Ask, Job, Priority, Stage
from tests.support.builders import a_job, a_lease, a_step, a_submission

JOBS = (
    a_job(id="01", product_id="notes", name="fix-login", title="Fix the login page"),
    a_job(id="02", product_id="shop", name="fix-cart", title="Repair Cart totals"),
    a_job(id="03", product_id="notes", name="dark-mode", title="Größere Schrift, dunkler Modus"),
    a_job(
        id="04",
        product_id="shop",
        name="split-billing",
        title="Split billing_service in 2",
        priority=Priority.CRITICAL,
        profile="coder@3",
        ask=Ask(repo="shop-api", engine="codex"),
        stage=Stage.SHIPPED,
    ),
    a_job(
        id="05",
        product_id="notes",
        name="fix-login",
        title="Fix the login again",
        priority=Priority.HIGH,
        profile="coder@4",
        ask=Ask(repo="notes-web", engine="codex"),
        engine="claude",
        stage=Stage.BUILDING,
        parent_id="03",
        lease=a_lease(factory_id="mac-1"),
    ),
    a_job(
        id="06",
        product_id="ops",
        name="rotate-keys",
        title="100% rotation *now*",
        profile="reviewer@1",
        parent_id="03",
        stage=Stage.CANCELLED,
        ending=(a_lease(factory_id="mac-1", epoch=1), a_lease(factory_id="linux-1", epoch=2)),
    ),
)

MANY = (*(f"p{n}" for n in range(99)), "ops")
"""More products than the SQLite store reads in parallel (`ARMS_MAX`)."""

FILTERS: dict[str, tuple[dict[str, object], str]] = {
    "all": ({}, "06 05 04 03 02 01"),
    "oldest first": ({"oldest_first": True}, "01 02 03 04 05 06"),
    "one product": ({"products": ("notes",)}, "05 03 01"),
    "two products": ({"products": ("shop", "ops")}, "06 04 02"),
    "a product twice": ({"products": ("ops", "ops")}, "06"),
    "no product": ({"products": ()}, ""),
    "many products": ({"products": MANY}, "06"),
    "one stage": ({"stages": (Stage.QUEUED,)}, "03 02 01"),
    "two stages": ({"stages": (Stage.BUILDING, Stage.SHIPPED)}, "05 04"),
    "product and stage": ({"products": ("notes",), "stages": (Stage.QUEUED,)}, "03 01"),
    "products and stages": (
        {"products": ("shop", "notes"), "stages": (Stage.BUILDING, Stage.SHIPPED)},
        "05 04",
    ),
    "many products and a stage": (
        {"products": MANY, "stages": (Stage.CANCELLED,)},
        "06",
    ),
    "name": ({"name": "fix-login"}, "05 01"),
    "name and product": ({"name": "fix-login", "products": ("shop",)}, ""),
    "repo": ({"repo": "shop-api"}, "04"),
    "profile of any version": ({"profile": "coder"}, "05 04"),
    "profile with a version is no name": ({"profile": "coder@3"}, ""),
    "engine of the newest run": ({"engine": "claude"}, "05"),
    "engine that is asked for": ({"engine": "codex"}, "04"),
    "factory, ending leases included": ({"factory_id": "mac-1"}, "06 05"),
    "factory of an ending lease": ({"factory_id": "linux-1"}, "06"),
    "factory and stage": ({"factory_id": "mac-1", "stages": (Stage.BUILDING,)}, "05"),
    "unknown factory": ({"factory_id": "mac"}, ""),
    "priority": ({"priority": Priority.MEDIUM}, "06 03 02 01"),
    "priority and product": ({"priority": Priority.MEDIUM, "products": ("notes",)}, "03 01"),
    "parent": ({"parent_id": "03"}, "06 05"),
    "one of several parents": ({"parents": ("02", "03", "03")}, "06 05"),
    "several parents and a stage": (
        {"parents": ("01", "03"), "stages": (Stage.BUILDING, Stage.QUEUED)},
        "05",
    ),
    "parents without children": ({"parents": ("01",)}, ""),
    "everything": (
        {
            "products": ("notes", "shop"),
            "stages": (Stage.BUILDING,),
            "name": "fix-login",
            "repo": "notes-web",
            "profile": "coder",
            "engine": "claude",
            "factory_id": "mac-1",
            "priority": Priority.HIGH,
            "parent_id": "03",
            "text": "login again",
        },
        "05",
    ),
    "a word": ({"text": "login"}, "05 01"),
    "the start of a word": ({"text": "rep"}, "02"),
    "one letter": ({"text": "l"}, "05 01"),
    "any case": ({"text": "CART"}, "02"),
    "all words": ({"text": "again fix"}, "05"),
    "words of name and title": ({"text": "billing 2"}, "04"),
    "the middle of a word": ({"text": "ogin"}, ""),
    "an underscore is of the word": ({"text": "billing_ser"}, "04"),
    "another script": ({"text": "größ"}, "03"),
    "another script in capitals": ({"text": "GRÖSS"}, ""),
    "no accent is dropped": ({"text": "gros"}, ""),
    "marks are no words": ({"text": '  "%* '}, "06 05 04 03 02 01"),
    "marks between words": ({"text": 'fix"-login* OR'}, ""),
    "words of the query language": ({"text": "NOT and OR NEAR"}, ""),
    "text and product": ({"text": "fix", "products": ("shop",)}, "02"),
    "text, oldest first": ({"text": "fix", "oldest_first": True}, "01 02 05"),
    "text and engine": ({"text": "fix", "engine": "claude"}, "05"),
    "limit": ({"limit": 2}, "06 05"),
    "after": ({"after": "03"}, "02 01"),
    "after, oldest first": ({"after": "03", "oldest_first": True}, "04 05 06"),
    "after one that is not there": ({"after": "035", "limit": 1}, "03"),
}


async def submit_jobs(store: Store) -> None:
    for job in JOBS:
        await store.commit(a_submission(job))


@pytest.mark.parametrize("name", FILTERS)
async def test_filter_finds_exactly_the_matching_jobs(store: Store, name: str) -> None:
    fields, expected = FILTERS[name]
    await submit_jobs(store)
    by_id = {job.id: job for job in JOBS}
    query = replace(JobQuery(), **fields)
    assert await store.find_jobs(query) == [by_id[id_] for id_ in expected.split()]


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"products": ("notes", "shop")},
        {"stages": (Stage.QUEUED, Stage.SHIPPED)},
        {"products": ("notes", "shop"), "stages": (Stage.QUEUED, Stage.SHIPPED)},
        {"text": "fix"},
        {"repo": "web"},
        {"factory_id": "mac-1"},
    ],
)
async def test_pages_follow_each_other_without_a_gap(
    store: Store, fields: dict[str, object], *, oldest_first: bool
) -> None:
    jobs = [
        a_job(
            id=f"{n:03}",
            product_id=("notes", "shop", "ops")[n % 3],
            stage=(Stage.QUEUED, Stage.SHIPPED, Stage.FAILED, Stage.REVIEW)[n % 4],
            title="Fix it" if n % 5 else "Leave it",
            name="job",
            ask=Ask(repo="web" if n % 2 else "api"),
            lease=a_lease(factory_id=f"mac-{n % 2}"),
        )
        for n in range(60)
    ]
    await store.commit(*map(a_submission, jobs))
    query = replace(JobQuery(oldest_first=oldest_first, limit=500), **fields)
    whole = await store.find_jobs(query)
    assert len(whole) > 10
    pages: list[Job] = []
    query = replace(query, limit=7)
    while page := await store.find_jobs(query):
        pages += page
        query = replace(query, after=page[-1].id)
    assert pages == whole
    assert all((a.id < b.id) == oldest_first for a, b in pairwise(whole))


MOVES: dict[str, tuple[object, dict[str, object]]] = {
    "stage": (Stage.REVIEW, {"stages": (Stage.REVIEW,)}),
    "name": ("renamed", {"name": "renamed"}),
    "title": ("Quite another title", {"text": "anoth"}),
    "priority": (Priority.LOW, {"priority": Priority.LOW}),
    "profile": ("tester@1", {"profile": "tester"}),
    "engine": ("gemini", {"engine": "gemini"}),
    "parent_id": ("01", {"parent_id": "01"}),
    "ask": (Ask(repo="elsewhere"), {"repo": "elsewhere"}),
    "product_id": ("extra", {"products": ("extra",), "stages": (Stage.QUEUED,)}),
    "lease": (a_lease(factory_id="mac-9"), {"factory_id": "mac-9"}),
}


@pytest.mark.parametrize("field", MOVES)
async def test_changed_job_is_found_by_its_new_values(store: Store, field: str) -> None:
    value, query = MOVES[field]
    await submit_jobs(store)
    assert await store.find_jobs(replace(JobQuery(), **query)) == []
    moved = replace(a_step(JOBS[0]).after, **{field: value})
    await store.commit(replace(a_step(JOBS[0]), after=moved))
    assert await store.find_jobs(replace(JobQuery(), **query)) == [moved]


async def test_changed_job_is_not_found_by_its_old_values(store: Store) -> None:
    await submit_jobs(store)
    for query in (JobQuery(text="page"), JobQuery(name="fix-login", oldest_first=True, limit=1)):
        assert await store.find_jobs(query) == [JOBS[0]]
    moved = a_step(JOBS[0], title="Other", name="other", stage=Stage.FAILED, product_id="ops")
    await store.commit(moved)
    assert await store.find_jobs(JobQuery(text="page")) == []
    assert await store.find_jobs(JobQuery(name="fix-login")) == [JOBS[4]]
    assert await store.find_jobs(JobQuery(products=("notes",), stages=(Stage.QUEUED,))) == [JOBS[2]]


async def test_long_word_is_found_by_its_prefixes_only(store: Store) -> None:
    word = "ab" * 200
    await store.commit(a_submission(a_job(title=word)))
    for text, found in ((word[:3], 1), (word[:390], 1), (word, 1), (word + "a", 0)):
        assert len(await store.find_jobs(JobQuery(text=text))) == found


async def test_jobs_are_counted_by_stage_within_a_scope(store: Store) -> None:
    nothing = dict.fromkeys(Stage, 0)
    assert await store.count_jobs_by_stage(None) == nothing
    await submit_jobs(store)
    everywhere = {Stage.QUEUED: 3, Stage.SHIPPED: 1, Stage.BUILDING: 1, Stage.CANCELLED: 1}
    assert await store.count_jobs_by_stage(None) == nothing | everywhere
    assert await store.count_jobs_by_stage(("notes",)) == nothing | {
        Stage.QUEUED: 2,
        Stage.BUILDING: 1,
    }
    assert await store.count_jobs_by_stage(()) == nothing
    await store.commit(a_step(JOBS[0], stage=Stage.ASSIGNED))
    assert await store.count_jobs_by_stage(("notes", "ops", "notes")) == nothing | {
        Stage.QUEUED: 1,
        Stage.ASSIGNED: 1,
        Stage.BUILDING: 1,
        Stage.CANCELLED: 1,
    }


async def test_unfinished_dependents_are_found(store: Store) -> None:
    await store.commit(
        a_submission(a_job(id="a")),
        a_submission(a_job(id="c", deps=("a", "b"))),
        a_submission(a_job(id="b", deps=("a",))),
        a_submission(a_job(id="d", deps=("a",), stage=Stage.CANCELLED)),
    )
    assert [j.id for j in await store.dependents("a")] == ["b", "c"]
    assert [j.id for j in await store.dependents("d")] == []
    moved = a_step(a_job(id="b", deps=("a",)), deps=("d", "c"))
    await store.commit(moved)
    assert [j.id for j in await store.dependents("a")] == ["c"]
    assert await store.dependents("d") == [moved.after]
    await store.commit(a_step(a_job(id="c", deps=("a", "b")), stage=Stage.SHIPPED))
    assert await store.dependents("a") == []
