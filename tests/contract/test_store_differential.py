"""For any writes, the SQLite store behaves like the memory store, which is the reference."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.domain.job.change import (
    FactoriesSeen,
    Guard,
    JobChange,
    JobDeletion,
    LeaseExpiredGuard,
    LeaseExtension,
    RecordChange,
    Renewal,
    RevisionGuard,
    Write,
)
from gigafactory.domain.job.job import Job, Priority, Stage
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.domain.tenancy.product import Product
from gigafactory.store.memory import MemoryStore
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import a_job, a_lease, a_step, a_submission, after, an_event

IDS = ("a", "b", "c")
KEYS = ("lock/x", "lock/y", "seat/1")
TITLES = ("Fix it", "fix-up the login", "Straße")
Known = Mapping[str, Job | Product | IdempotencyRecord]

ids = st.sampled_from(IDS)
keys = st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple)
seconds = st.sampled_from((10, 60, 90, 120, 200))
epochs = st.integers(1, 4)
guards = st.lists(
    st.one_of(
        st.builds(
            RevisionGuard,
            st.sampled_from(("job", "product")),
            ids,
            st.sampled_from((0, 1, 1, 2, 3)),
        ),
        st.builds(LeaseExpiredGuard, ids, epochs, seconds.map(after)),
    ),
    max_size=1,
).map(tuple)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a client's write, which is built from the data that it has read."""

    verb: str
    job: str
    stale: bool
    take: tuple[str, ...]
    free: tuple[str, ...]
    guards: tuple[Guard, ...]
    seconds: int
    epoch: int
    deps: tuple[str, ...]
    title: str
    stage: Stage
    factory: str


COMMON = ("step", "grant", "save")
RARE = (
    "submit",
    "end",
    "take away",
    "stop",
    "renew",
    "hurry",
    "list",
    "remove",
    "answer",
    "see",
    "outage",
    "forget",
    "forget",
)

wishes = st.builds(
    Wish,
    verb=st.sampled_from(COMMON + COMMON + RARE),
    job=ids,
    stale=st.sampled_from((False, False, False, True)),
    take=keys,
    free=keys,
    guards=guards,
    seconds=seconds,
    epoch=epochs,
    deps=st.lists(ids, max_size=2).map(tuple),
    title=st.sampled_from(TITLES),
    stage=st.sampled_from(Stage),
    factory=st.sampled_from(("mac-1", "linux-1")),
)
groups = st.lists(wishes, min_size=1, max_size=3)
rounds = st.lists(groups, min_size=1, max_size=5)
"""Groups that are committed concurrently."""

queries = st.builds(
    JobQuery,
    products=st.sampled_from((None, None, ("notes",), ("notes", "shop"))),
    stages=st.lists(st.sampled_from(Stage), max_size=4).map(tuple),
    factory_id=st.sampled_from((None, None, "mac-1")),
    engine=st.sampled_from((None, None, "claude")),
    priority=st.sampled_from((None, None, Priority.HIGH)),
    text=st.sampled_from((None, None, "fix", "login f", "STRASSE", "stra")),
    oldest_first=st.booleans(),
    after=st.sampled_from((None, None, *IDS)),
    limit=st.integers(1, 3),
)


def change_of(wish: Wish, job: Job) -> JobChange:
    """Return the change of a job for a wish."""
    lease, common = job.lease, {"take": wish.take, "free": wish.free, "guards": wish.guards}
    fields: dict[str, object] = {"updated_at": after(wish.seconds)}
    match wish.verb:
        case "grant" if lease is None:
            epoch = job.lease_epoch + 1
            granted = a_lease(epoch=epoch, factory_id=wish.factory, expires_at=after(wish.seconds))
            fields |= {"lease": granted, "lease_epoch": epoch, "engine": "claude"}
        case "end":
            fields |= {"lease": None}
        case "take away" if lease is not None:
            fields |= {"lease": None, "ending": (*job.ending, lease)}
        case "stop":
            fields |= {"ending": job.ending[1:]}
        case "hurry" if lease is not None:
            fields |= {"lease": replace(lease, expires_at=after(wish.seconds))}
        case "list":
            fields |= {"title": wish.title, "priority": Priority.HIGH, "deps": wish.deps}
        case _:
            fields |= {"stage": wish.stage}
    change = a_step(job, updated_at=after(wish.seconds))
    moved = replace(change.after, **fields)
    return replace(change, after=moved, events=(an_event(moved),), **common)


def saved_of(wish: Wish, known: Known) -> RecordChange | None:
    """Return the record change for a wish; None if there is no record to remove."""
    product, kept = known.get(f"product/{wish.job}"), known.get(f"answer/{wish.job}")
    assert not isinstance(product, Job)
    assert not isinstance(kept, Job)
    if wish.verb == "answer":
        fresh = IdempotencyRecord(
            key=wish.job,
            request_hash=wish.title,
            value=msgspec.Raw(b"1"),
            expires_at=after(wish.seconds),
            rev=kept.rev + 1 if kept else 1,
        )
        return RecordChange(before=kept, after=fresh)
    if wish.verb == "remove":
        removed = RecordChange(before=product, after=None, guards=wish.guards)
        return removed if product else None
    written = Product(id=wish.job, repos=(wish.title,), rev=product.rev + 1 if product else 1)
    event = an_event(None, "saved", product_id=wish.job)
    return RecordChange(before=product, after=written, events=(event,), guards=wish.guards)


def forgotten_of(wish: Wish, job: Job) -> Write:
    """Return the deletion of a job, or a step to `shipped` if it cannot be deleted yet."""
    if job.finished and job.lease is None and not job.ending:
        return JobDeletion(job=job, free=KEYS)
    return change_of(replace(wish, verb="step", stage=Stage.SHIPPED), job)


def write_of(wish: Wish, known: Known) -> Write | None:
    """Return the write for a wish of a client that has read `known`; None for no write."""
    if wish.verb == "outage":
        return None
    if wish.verb == "see":
        return FactoriesSeen({wish.factory: after(wish.seconds)})
    if wish.verb == "renew":
        return Renewal(wish.job, wish.epoch, after(wish.seconds))
    if wish.verb in {"save", "remove", "answer"}:
        return saved_of(wish, known)
    job = known.get(f"job/{wish.job}")
    if wish.verb == "submit" or not isinstance(job, Job):
        made = a_job(
            id=wish.job,
            title=wish.title,
            deps=wish.deps,
            product_id=("notes", "shop")[wish.epoch % 2],
        )
        return a_submission(made, take=wish.take, free=wish.free, guards=wish.guards)
    return forgotten_of(wish, job) if wish.verb == "forget" else change_of(wish, job)


def group_of(wished: list[Wish], known: Known, stale: Known) -> tuple[Write, ...]:
    """Return the writes of one commit; the lease extension of an outage is committed alone."""
    if wished[0].verb == "outage":
        return (LeaseExtension(timedelta(seconds=wished[0].seconds)),)
    made = (write_of(wish, stale if wish.stale else known) for wish in wished)
    return tuple(write for write in made if write is not None)


async def read(store: Store) -> Known:
    """Return all jobs and records that a client can read."""
    jobs = await store.jobs(IDS)
    products, answers = await store.records(Product), await store.records(IdempotencyRecord)
    return {
        **{f"job/{job.id}": job for job in jobs.values()},
        **{f"product/{product.id}": product for product in products},
        **{f"answer/{answer.key}": answer for answer in answers},
    }


async def everything(store: Store, asked: Sequence[JobQuery]) -> dict[str, object]:
    """Return the results of all reads of a store, as comparable values."""
    said: dict[str, object] = {
        "known": {
            name: msgspec.json.encode(kept) if isinstance(kept, IdempotencyRecord) else kept
            for name, kept in (await read(store)).items()
        },
        "feed": [entry.event for entry in await store.feed(after=0)],
        "position": await store.position(),
        "audit": list(await store.audit(("a", "b"))),
        "held": await store.keys_with_prefix("lock/"),
        "holders": await store.key_owners(KEYS),
        "seen": await store.last_seen(),
        "counts": await store.count_jobs_by_stage(None),
        "shop": await store.count_jobs_by_stage(("shop",)),
        "expired": list(await store.jobs_with_expired_leases(after(120))),
        "outdated": [
            answer.key for answer in await store.expired_records(IdempotencyRecord, after(90))
        ],
        "found": [list(await store.find_jobs(query)) for query in asked],
    }
    for id_ in IDS:
        said[f"events/{id_}"] = list(await store.events(id_))
        said[f"dependents/{id_}"] = list(await store.dependents(id_))
        specs = await store.specs([id_])
        said[f"spec/{id_}"] = [(bytes(spec.manifest), spec.body) for spec in specs.values()]
    return said


async def play(store: Store, history: Sequence[list[list[Wish]]], *, twin: Store) -> None:
    """Commit the same groups to both stores, concurrently, and compare all verdicts."""
    stale = known = await read(twin)
    for round_ in history:
        batch: list[tuple[Write, ...]] = [group_of(wished, known, stale) for wished in round_]
        expected = await asyncio.gather(*(twin.commit(*writes) for writes in batch))
        assert await asyncio.gather(*(store.commit(*writes) for writes in batch)) == expected
        stale, known = known, await read(twin)


@settings(max_examples=60, deadline=None)
@given(st.lists(rounds, min_size=1, max_size=8), st.lists(queries, max_size=4))
def test_sqlite_store_behaves_like_the_memory_store(
    history: list[list[list[Wish]]], asked: list[JobQuery]
) -> None:
    async def compare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            twin = MemoryStore()
            path = Path(folder) / "fleet.db"
            async with SqliteStore.open(path) as store:
                await play(store, history, twin=twin)
                assert await everything(store, asked) == await everything(twin, asked)
            async with SqliteStore.open(path) as reopened:
                assert await everything(reopened, asked) == await everything(twin, asked)

    asyncio.run(compare())
