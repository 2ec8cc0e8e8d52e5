"""The contract of records other than jobs: compare-and-set, paging, removal, expiry."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.insights.exploration import Episode
from gigafactory.domain.insights.guardrail import TrialArm
from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures
from gigafactory.domain.insights.routing_record import ExpectedOutcome, RoutingRecord
from gigafactory.domain.insights.routing_rollout import (
    GuardrailTrip,
    RolloutMode,
    RoutingRollout,
    RoutingSide,
)
from gigafactory.domain.insights.tally import RunCounts, Tally, TallyIncrement
from gigafactory.domain.job.artifact import Artifact, ArtifactLink, OrphanBlob
from gigafactory.domain.job.change import Record, RecordChange, StaleRevision, Stored
from gigafactory.domain.job.job import Result, Stage, Step
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.tenancy.access import (
    Enrollment,
    LoginCode,
    Role,
    SecretGuessing,
    Token,
    TokenKind,
)
from gigafactory.domain.tenancy.budget import Budget, BudgetPause, BudgetTerms, CostSample, Spend
from gigafactory.domain.tenancy.dispatch_mode import (
    ComparedPlacement,
    OutcomeCounts,
    ShadowComparison,
    compare_placements,
)
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.domain.tenancy.leader import Leader, LeaderHeartbeat
from gigafactory.domain.tenancy.notification import (
    ChannelQuietPeriod,
    Notification,
    NotificationState,
)
from gigafactory.domain.tenancy.product import Product, ProfileVersion, Weights
from gigafactory.domain.tracker.ticket_update import FeedCursor, TicketCursor, WriteIntent
from gigafactory.domain.tracker.webhook_delivery import WebhookDelivery
from gigafactory.store.rows import KINDS
from tests.support.builders import NOON, a_factory, a_product, after

RECORDS: tuple[Record, ...] = (
    ArchivedJob(
        job_id="job-1",
        product_id="notes",
        name="fix-login",
        title="Fix the login",
        stage=Stage.SHIPPED,
        created_at=NOON,
        finished_at=NOON,
        archived_at=NOON,
        size=10**9,
        sha256="c0ffee",
    ),
    LoginCode(hash="h1", token_key="h2", expires_at=NOON),
    IdempotencyRecord(
        key="ann/1", request_hash="ab", value=msgspec.Raw(b'{"a":1}'), expires_at=NOON
    ),
    Artifact(
        id="job-1.0001",
        job_id="job-1",
        product_id="notes",
        run_id="job-1.1",
        epoch=1,
        name="reports/über uns.html",
        media_type="text/html",
        size=2**40,
        sha256="ab" * 32,
        created_at=NOON,
        created_by="factory:mac-1",
    ),
    ArtifactLink(
        hash="h1",
        artifact_id="job-1.0001",
        product_id="notes",
        token_key="h2",
        created_by="user:ann",
        expires_at=after(5),
    ),
    LeaderHeartbeat(duty="reaper", until=NOON),
    Budget(
        product_id="notes",
        terms=BudgetTerms(ceiling_nano_usd=10**18),
        days={"2026-01-01": Spend(10**15, 7)},
        samples=(CostSample(None, "claude", 5),),
        pause=BudgetPause(by="user:ann", reason="ä", at=NOON),
    ),
    Ceiling(job_id="job-1", product_id="notes", usd_nanos=10**15, spent_tokens=7, reached_at=NOON),
    Enrollment(id="e1", hash="h1", created_at=NOON, created_by="user:ann", expires_at=after(5)),
    WebhookDelivery(place="notes", id="72d3162e", expires_at=NOON),
    Episode(
        product_id="notes",
        job_id="job-1",
        routing=RoutingRecord(
            mode=RolloutMode.AB,
            trial=3,
            side=RoutingSide.LEARNED,
            explored=True,
            choices=(
                ExpectedOutcome(
                    engine="claude", factory_id="mac-1", success=0.7, seconds=60.5, cost_usd=0.25
                ),
            ),
            chosen=0,
            heuristic=0,
            learned=0,
        ),
        propensity=0.25,
        observation=Observation(tries=1),
        expires_at=NOON,
    ),
    a_factory(),
    SecretGuessing(address="192.0.2.1", attempts=20, expires_at=NOON),
    FeedCursor(duty="echoes", position=7),
    Leader(duty="reaper", holder="coordinator-1"),
    OrphanBlob(key="artifacts/job-1/0001", expires_at=NOON),
    a_product(repos=("notes",), weights=Weights(load=2.0), protected_paths=("ci/**",)),
    ProfileVersion(
        product_id="notes",
        profile=Profile(name="coder", version=3, persona="Be brief.", stall=timedelta(minutes=5)),
        saved_by="user:ann",
        saved_at=NOON,
    ),
    ShadowComparison(
        product_id="notes",
        since=NOON,
        counts=OutcomeCounts(agree=3, same=2, only_real=1),
        differences=compare_placements(
            "job-1", None, ComparedPlacement(factory_id="mac-1", engine=None, score=1.5), now=NOON
        ).differences,
    ),
    RoutingRollout(
        product_id="notes",
        mode=RolloutMode.SHADOW,
        learned=TrialArm(tries=3, log_nanos_squared=10**15),
        tripped=GuardrailTrip("cost", RolloutMode.AB, NOON, "jobs cost more: ä"),
    ),
    Run(
        id="job-1.1",
        job_id="job-1",
        product_id="notes",
        factory_id="mac-1",
        epoch=1,
        number=1,
        step=Step.RUN,
        engine="claude",
        granted_at=NOON,
        usage=Usage(tokens_in=10**12, cost_nano_usd=5),
        diff={"files": [1, None, "é"]},
    ),
    TallyIncrement(
        key="job-1.1.2",
        product_id="notes",
        job_id="job-1",
        number=1,
        result=Result.OK,
        groups={"repo": "git@host:a/b.git"},
        counts=RunCounts(runs=1, cost_nano_usd=-(10**15), results={"ok": 1}),
    ),
    HaltSwitch(product_id="*", halted=True, by="user:ann", at=NOON),
    ChannelQuietPeriod(channel="ops", until=NOON),
    Notification(
        channel="ops",
        matter="review/job-1/0",
        product_id="notes",
        state=NotificationState.SENT,
        not_before=NOON,
        expires_at=NOON,
    ),
    Tally(
        key="notes/repo/all/git@host:a/b.git",
        counts=RunCounts(runs=10**12),
        cell=Cell(
            TaskFeatures("notes", "a/b", "coder", None, "small"),
            RoutingChoice("acp:x y", "mac-1", "é"),
        ),
        observation=Observation(tries=10**9, passes=7, log_ms=-5, log_nanos_squared=10**15),
    ),
    Token(
        id="t1",
        hash="h1",
        for_=TokenKind.OPERATOR,
        user="ann",
        role=Role.ADMIN,
        created_at=NOON,
        created_by="system",
    ),
    TicketCursor(
        product_id="notes",
        item_id="acme/notes#7",
        job_id="job-1",
        seq=4,
        stage=Stage.BUILDING,
        intent=WriteIntent(5, "coordinator-1", NOON),
    ),
)


def answer(key: str, seconds: float) -> IdempotencyRecord:
    return IdempotencyRecord(
        key=key, request_hash="ab", value=msgspec.Raw(b"null"), expires_at=after(seconds)
    )


def test_every_record_kind_is_covered() -> None:
    assert {record.kind for record in RECORDS} == set(KINDS)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
async def test_a_record_is_read_back_whole(store: Store, record: Record) -> None:
    assert await store.record(type(record), record.key) is None
    assert isinstance(await store.commit(RecordChange(before=None, after=record)), Stored)
    kept = await store.record(type(record), record.key)
    assert type(kept) is type(record)
    assert msgspec.json.encode(kept) == msgspec.json.encode(record)


async def test_record_is_replaced_only_from_its_current_revision(store: Store) -> None:
    one, two, three = (a_product(rev=n, share=float(n)) for n in (1, 2, 3))
    assert isinstance(await store.commit(RecordChange(before=None, after=one)), Stored)
    assert await store.commit(RecordChange(before=None, after=one)) == StaleRevision(
        "product/notes"
    )
    assert isinstance(await store.commit(RecordChange(before=one, after=two)), Stored)
    assert await store.commit(RecordChange(before=one, after=three)) == StaleRevision(
        "product/notes"
    )
    assert await store.record(Product, "notes") == two


async def test_one_of_many_concurrent_leader_claims_wins(store: Store) -> None:
    claims = [Leader(duty="reaper", holder=f"coordinator-{n}") for n in range(8)]
    verdicts = await asyncio.gather(
        *(store.commit(RecordChange(before=None, after=claim)) for claim in claims)
    )
    [winner] = [c for c, v in zip(claims, verdicts, strict=True) if isinstance(v, Stored)]
    assert await store.record(Leader, "reaper") == winner


async def test_record_is_removed_only_from_its_current_revision(store: Store) -> None:
    one, two = a_product(), a_product(rev=2)
    await store.commit(RecordChange(before=None, after=one))
    await store.commit(RecordChange(before=one, after=two))
    assert await store.commit(RecordChange(before=one, after=None)) == StaleRevision(
        "product/notes"
    )
    assert isinstance(await store.commit(RecordChange(before=two, after=None)), Stored)
    assert await store.record(Product, "notes") is None
    assert isinstance(await store.commit(RecordChange(before=None, after=one)), Stored)


async def test_records_of_different_kinds_do_not_mix(store: Store) -> None:
    await store.commit(RecordChange(before=None, after=Leader(duty="notes", holder="c")))
    assert await store.record(Product, "notes") is None
    assert await store.records(Product) == []
    assert isinstance(await store.commit(RecordChange(before=None, after=a_product())), Stored)


async def test_records_are_paged_in_key_order(store: Store) -> None:
    keys = ("b", "a/2", "a/10", "a", "a/1", "B", "ä", "a0", "a%")
    for key in keys:
        await store.commit(RecordChange(before=None, after=a_product(id=key)))
    assert [p.key for p in await store.records(Product)] == sorted(keys)
    assert [p.key for p in await store.records(Product, prefix="a/")] == ["a/1", "a/10", "a/2"]
    page = await store.records(Product, prefix="a/", limit=2)
    rest = await store.records(Product, prefix="a/", after=page[-1].key)
    assert [p.key for p in (*page, *rest)] == ["a/1", "a/10", "a/2"]
    assert [p.key for p in await store.records(Product, after="a/10", limit=3)] == sorted(keys)[5:8]


async def test_expired_records_are_found_longest_expired_first(store: Store) -> None:
    for key, seconds in (("x", 20), ("y", 10), ("z", 30)):
        await store.commit(RecordChange(before=None, after=answer(key, seconds)))
    await store.commit(RecordChange(before=None, after=a_product()))
    assert [a.key for a in await store.expired_records(IdempotencyRecord, after(20))] == ["y", "x"]
    assert [a.key for a in await store.expired_records(IdempotencyRecord, after(30), limit=1)] == [
        "y"
    ]
    assert await store.expired_records(IdempotencyRecord, after(9)) == []
    assert await store.expired_records(Product, after(99)) == []
    assert await store.expired_records(Enrollment, after(99)) == []
