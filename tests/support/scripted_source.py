"""A dashboard source with scripted content that records calls, and a sample fleet."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from gigafactory.domain.errors import Refused
from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.job.job import Checkpoint, Priority, Result, Stage, Step
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.job.run import Usage
from gigafactory.tui.model.source import (
    NO_INPUT,
    ActionInput,
    DashboardSnapshot,
    EmptyViewHints,
    JobDetail,
    LogChunk,
)
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import EngineView, FactoryView
from gigafactory.wire.jobs import JobView, LeaseView
from gigafactory.wire.runs import RunView, UsageView
from tests.support import builders
from tests.support.builders import NOON

HINTS = EmptyViewHints(
    no_jobs="No jobs yet.",
    no_attention="Nothing needs you.",
    no_factories="No factory is enrolled.",
    no_budgets="Nothing was spent.",
)


def before(**delta: float) -> datetime:
    return NOON - timedelta(**delta)


def after(**delta: float) -> datetime:
    return NOON + timedelta(**delta)


def a_job(name: str, stage: Stage = Stage.QUEUED, **fields: object) -> JobView:
    defaults: dict[str, Any] = {
        "id": f"id-{name}",
        "name": name,
        "product_id": "notes",
        "title": f"{name.capitalize()} it".replace("-", " "),
        "kind": "leaf",
        "stage": stage,
        "result": None,
        "reason": None,
        "priority": Priority.MEDIUM,
        "repo": "git@example.org:notes.git",
        "profile": "builder@1",
        "engine": "claude",
        "capabilities": (),
        "deps": (),
        "lock": None,
        "attempts": 0,
        "submitted_by": "user:ann",
        "rev": 1,
        "lease_epoch": 0,
        "lease": None,
        "checkpoint": None,
        "parent_id": None,
        "phase": None,
        "created_at": before(minutes=30),
        "updated_at": before(minutes=3),
        "stage_since": before(minutes=3),
        "not_before": None,
        "flags": (),
    }
    values = defaults | fields
    job_like = builders.a_job(stage=stage, kind=values["kind"])
    return JobView(**({"actions": actions_of(job_like)} | values))


def lease_view(factory_id: str) -> LeaseView:
    return LeaseView(factory_id=factory_id, expires_at=after(seconds=60))


def a_checkpoint(commit: str) -> Checkpoint:
    return Checkpoint(branch="aq/job/x", commit=commit)


def job_attention(job: JobView, kind: str, reason: str) -> AttentionItemView:
    return AttentionItemView(
        kind=kind,
        subject=job.id,
        title=job.title,
        since=job.stage_since,
        reason=reason,
        actions=job.actions,
        product_id=job.product_id,
    )


def attention_item(
    kind: str, subject: str, reason: str, *actions: str, product: str | None = None
) -> AttentionItemView:
    return AttentionItemView(
        kind=kind,
        subject=subject,
        title=f"{kind} {subject}",
        since=before(minutes=7),
        reason=reason,
        actions=actions,
        product_id=product,
    )


def an_engine(**fields: object) -> EngineView:
    defaults: dict[str, Any] = {"version": None, "cooling_until": None, "unavailable": None}
    return EngineView(**(defaults | fields))


def a_factory(name: str, **fields: object) -> FactoryView:
    defaults: dict[str, Any] = {
        "id": name,
        "instance_id": "one",
        "cost_class": 1,
        "sandbox": None,
        "pressure": Pressure(),
        "online": True,
        "health": 0.97,
        "draining": False,
        "streaming": True,
        "last_seen": before(seconds=4),
        "enrolled_at": before(days=9),
        "products": ("*",),
        "os": "linux",
        "labels": ("fast",),
        "capabilities": ("os:linux", "has:make"),
        "engines": {"claude": an_engine(version="2.1.0", seats=2)},
        "slots": 4,
        "repos": (),
        "version": "0.1.0",
    }
    return FactoryView(**(defaults | fields))


def a_budget(product: str, percent: int = 0, **fields: object) -> BudgetView:
    defaults: dict[str, Any] = {
        "product_id": product,
        "ceiling_usd": "20",
        "period": "month",
        "reserve_usd": "1",
        "at_ceiling": "stop",
        "spent_usd": str(percent / 5),
        "estimated_usd": "0",
        "reserved_usd": "1.5",
        "left_usd": str(20 - percent / 5),
        "percent": percent,
        "warning": 0,
        "period_begins": before(days=1),
        "paused_at": None,
        "period_ends": after(days=30),
        "paused": False,
        "paused_by": None,
        "says": f"${percent / 5:g} of $20 this month",
    }
    return BudgetView(**(defaults | fields))


def a_fleet() -> DashboardSnapshot:
    """Return a small fleet with an example of every state."""
    terms = a_job("terms", Stage.REVIEW, checkpoint=a_checkpoint("0123456789abcdef"))
    prices = a_job("prices", Stage.TESTING, checkpoint=a_checkpoint("fedcba9876543210"))
    call = a_job("asked", Stage.TESTING)
    survivor = a_job("survivor", Stage.BUILDING, lease=lease_view("linux-2"), lease_epoch=2)
    flaky = a_job(
        "flaky",
        not_before=after(minutes=4, seconds=31),
        result=Result.RATE_LIMITED,
        reason="claude says: try again at 12:04",
        attempts=1,
    )
    logo = a_job("logo", flags=("unroutable",))
    page = a_job("page", Stage.BLOCKED, deps=("id-terms", "id-prices"))
    film = a_job(
        "film",
        Stage.FAILED,
        result=Result.VERIFY_FAILED,
        reason="verify: `make test` ended with 2: tests/test_film.py::test_cut failed, as before",
    )
    over = a_job("over", Stage.CANCELLED, reason="not needed")
    done = a_job("done", Stage.SHIPPED, stage_since=before(hours=5))
    jobs = (terms, prices, call, survivor, flaky, logo, page, film, over, done)
    return DashboardSnapshot(
        jobs=jobs,
        counts={stage: sum(job.stage is stage for job in jobs) for stage in Stage}
        | {Stage.SHIPPED: 41},
        factories=(
            a_factory("linux-2"),
            a_factory(
                "mac-1",
                draining=True,
                health=0.45,
                os="mac",
                engines={
                    "claude": an_engine(seats=2, cooling_until=after(minutes=4, seconds=31)),
                    "codex": an_engine(seats=1, unavailable="not signed in"),
                },
            ),
            a_factory("old-3", online=False, health=0.0, last_seen=before(hours=2), engines={}),
        ),
        attention=(
            attention_item("budget", "notes", "82 % is spent: $16.4 of $20", product="notes"),
            job_attention(terms, "review", "waits for a review"),
            job_attention(prices, "ship", "ready to ship"),
            job_attention(film, "failed", film.reason or ""),
            job_attention(logo, "unroutable", "no factory has ever advertised has:figma"),
            attention_item("factory_offline", "old-3", "was last seen then"),
        ),
        budgets=(
            a_budget("notes", 82),
            a_budget("shop", ceiling_usd=None, left_usd=None, says="$0 is spent"),
            a_budget("studio", 10, paused=True, paused_by="user:ann", says="paused by user:ann"),
        ),
        wait_reasons={
            logo.id: "no factory has ever advertised has:figma; nearest known: has:make",
            page.id: "it waits for 2 other jobs",
        },
    )


class ScriptedSource:
    """Shows a snapshot until another one is set, and records all calls."""

    name = "http://fleet.example:8790"
    hints = HINTS

    def __init__(
        self, snapshot: DashboardSnapshot, *, supported_actions: frozenset[str] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.supported_actions = (
            frozenset({"drain", "undrain", "pause", "halt"})
            if supported_actions is None
            else supported_actions
        )
        self.outage: Refused | None = None
        self.refusal: Refused | None = None
        self.calls: list[tuple[object, ...]] = []
        self.filters: list[str] = []
        self.closed = False
        self.changed = asyncio.Event()
        self.log_queues: dict[str, asyncio.Queue[str | None]] = {}
        self.reasons: tuple[str, ...] = ()

    def update(self, change: Callable[[DashboardSnapshot], DashboardSnapshot]) -> None:
        """Change the snapshot and notify the dashboard."""
        self.snapshot = change(self.snapshot)
        self.changed.set()

    def replace_job(self, job: JobView) -> None:
        """Replace one job."""
        self.update(
            lambda snapshot: replace(
                snapshot, jobs=tuple(job if each.id == job.id else each for each in snapshot.jobs)
            )
        )

    def append_log(self, job_id: str, text: str | None) -> None:
        """Append to the log of a job; None ends the run."""
        self.log_queues.setdefault(job_id, asyncio.Queue()).put_nowait(text)

    def _require(self) -> None:
        if self.outage is not None:
            raise self.outage

    async def load(self, filter_text: str) -> DashboardSnapshot:
        self._require()
        self.filters.append(filter_text)
        return self.snapshot

    async def changes(self) -> AsyncGenerator[None, None]:
        while True:
            await self.changed.wait()
            self.changed.clear()
            yield

    async def load_job(self, job_id: str) -> JobDetail:
        self._require()
        job = next(each for each in self.snapshot.jobs if each.id == job_id)
        run = RunView(
            id="r-1",
            job_id=job.id,
            product_id=job.product_id,
            attempt=1,
            repo=job.repo,
            profile=job.profile,
            verify=None,
            diff=None,
            versions={},
            wall_sec=None,
            cpu_sec=None,
            decision={},
            parent_id=None,
            review=None,
            edited_lines=None,
            factory_id="linux-2",
            lease_epoch=job.lease_epoch,
            number=1,
            step=Step.RUN,
            engine=job.engine,
            granted_at=before(minutes=3),
            started_at=before(minutes=3),
            ended_at=None,
            result=None,
            reason=None,
            usage=UsageView.from_domain(Usage(cost_nano_usd=420_000_000, tokens_out=1200)),
        )
        why = self.snapshot.wait_reasons.get(job_id, f"linux-2 has {job.name}")
        runs = (run,) if job.lease_epoch else ()
        return JobDetail(job=job, why=why, reasons=self.reasons, runs=runs)

    async def follow_log(self, job_id: str, cursor: str | None) -> AsyncGenerator[LogChunk, None]:
        pieces = self.log_queues.setdefault(job_id, asyncio.Queue())
        number = int(cursor or 0)
        while (text := await pieces.get()) is not None:
            number += 1
            yield LogChunk(text, str(number))

    def _note(self, *call: object) -> str:
        self.calls.append(call)
        if self.refusal is not None:
            raise self.refusal
        return f"done: {' '.join(str(each) for each in call if each)}"

    async def act(self, job_id: str, action: str, action_input: ActionInput = NO_INPUT) -> str:
        return self._note(action, job_id, action_input.reason, action_input.commit)

    async def drain(self, factory_id: str, *, draining: bool) -> str:
        return self._note("drain", factory_id, draining)

    async def pause(self, product_id: str, *, paused: bool, reason: str = "") -> str:
        return self._note("pause", product_id, paused, reason)

    async def halt(self, product_id: str | None, *, halted: bool, reason: str = "") -> str:
        return self._note("halt", product_id, halted, reason)

    async def close(self) -> None:
        self.closed = True
