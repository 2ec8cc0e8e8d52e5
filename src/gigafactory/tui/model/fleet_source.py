"""Dashboard source of a fleet: API calls, with the event stream for changes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from gigafactory.client import events as stories
from gigafactory.client import fleet, jobs, products
from gigafactory.client import products as budgets
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.call import ApiCall
from gigafactory.domain.errors import NotFound, Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.domain.scheduler.explain import Explanation
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
from gigafactory.wire.files import LogEvent
from gigafactory.wire.jobs import JobFilter, JobView

T = TypeVar("T")

HINTS = EmptyViewHints(
    no_jobs="No jobs yet. Submit one with `aq submit fix-login.md`.",
    no_attention="Nothing needs you.",
    no_factories="No factory is enrolled. Invite a machine with `aq factory invite`.",
    no_budgets="No product has spent anything. Set a limit with `aq budget set 50`.",
)

PAGES: tuple[JobFilter, ...] = (
    JobFilter(stage="review,testing", sort="oldest", limit=100),
    JobFilter(stage="assigned,building", limit=100),
    JobFilter(stage="queued,blocked", sort="oldest", limit=100),
    JobFilter(stage="failed,dead_letter,cancelled", limit=50),
    JobFilter(stage="shipped", limit=30),
)
WAITING_PAGE = 2
"""Index of the page of waiting jobs."""
BUDGETS_MAX = 20
EXPLAINED_MAX = 20
EXPLAINED_FOR_S = 5.0
"""Explanations also change with other jobs: they are refreshed after this time."""
LOG_TAIL_BYTES = 256 * 1024


class FleetSource:
    """A coordinator, as far as one token may see it."""

    hints = HINTS
    supported_actions = frozenset({"drain", "undrain", "pause", "halt"})

    def __init__(
        self, client: AsyncClient, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Show what this client's token and product cover."""
        self._client = client
        self._monotonic = monotonic
        self._explained: dict[tuple[str, int], tuple[float, str]] = {}

    @property
    def name(self) -> str:
        product = self._client.product
        return f"{product} at {self._client.url}" if product else self._client.url

    async def _send(self, call: ApiCall[T]) -> T:
        try:
            return await self._client.send(call)
        except msgspec.DecodeError as unreadable:
            raise Unavailable(
                f"cannot read the response of {self._client.url} ({unreadable}):"
                " is it a coordinator of this version?"
            ) from None

    async def load(self, filter_text: str) -> DashboardSnapshot:
        pages = [msgspec.structs.replace(page, text=filter_text or None) for page in PAGES]
        metrics, factories, items, budgets = await asyncio.gather(
            self._send(fleet.metrics()),
            self._send(fleet.factories()),
            self._send(fleet.attention()),
            asyncio.gather(*(self._send(jobs.find(page)) for page in pages)),
        )
        every = tuple(job for page in budgets for job in page.jobs)
        money, why = await asyncio.gather(
            self._budgets(every), self._wait_reasons(budgets[WAITING_PAGE].jobs)
        )
        return DashboardSnapshot(
            jobs=every,
            counts=metrics.stages,
            factories=factories.factories,
            attention=_distinct(items.attention),
            budgets=money,
            wait_reasons=why,
        )

    async def _budgets(self, visible_jobs: Iterable[JobView]) -> tuple[BudgetView, ...]:
        wanted = {self._client.product} if self._client.product else None
        if wanted is None:
            products_page = await self._send(products.products())
            wanted = {each.id for each in products_page.products} | {
                job.product_id for job in visible_jobs
            }
        calls = [budgets.budget(each) for each in sorted(wanted)[:BUDGETS_MAX]]
        return tuple(await asyncio.gather(*map(self._send, calls)))

    async def _wait_reasons(self, waiting: Iterable[JobView]) -> dict[str, str]:
        first = list(waiting)[:EXPLAINED_MAX]
        now = self._monotonic()
        fresh = {
            key: cached
            for key, cached in self._explained.items()
            if now - cached[0] < EXPLAINED_FOR_S
        }
        unknown = [job for job in first if (job.id, job.rev) not in fresh]
        explanations = await asyncio.gather(*(self._explanation(job.id) for job in unknown))
        for job, explanation in zip(unknown, explanations, strict=True):
            if explanation is not None:
                fresh[job.id, job.rev] = (now, explanation.summary)
        self._explained = fresh
        return {job.id: fresh[job.id, job.rev][1] for job in first if (job.id, job.rev) in fresh}

    async def _explanation(self, job_id: str) -> Explanation | None:
        try:
            return await self._send(stories.explanation(job_id))
        except NotFound:
            return None  # archived since it was listed

    async def changes(self) -> AsyncGenerator[None, None]:
        async with aclosing(self._client.follow(stories.product_stream())) as stream:
            async for _ in stream:
                yield

    async def load_job(self, job_id: str) -> JobDetail:
        job, why = await asyncio.gather(
            self._send(jobs.get(job_id, include=("runs",))),
            self._send(stories.explanation(job_id)),
        )
        reasons = tuple(reason.message for reason in why.reasons)
        return JobDetail(job=job, why=why.summary, reasons=reasons, runs=job.runs or ())

    async def follow_log(self, job_id: str, cursor: str | None) -> AsyncGenerator[LogChunk, None]:
        call = stories.log_stream(job_id, tail=None if cursor else LOG_TAIL_BYTES)
        async with aclosing(self._client.follow(call, after=cursor)) as stream:
            async for sent in stream:
                if sent.event == "end":
                    return
                yield LogChunk(msgspec.json.decode(sent.data, type=LogEvent).text, sent.id)

    async def act(self, job_id: str, action: str, given: ActionInput = NO_INPUT) -> str:
        if action == "request-review":
            job = await self._send(jobs.request_review(job_id, comment=given.reason))
        else:
            call = jobs.act(job_id, action, reason=given.reason, commit=given.commit)
            job = await self._send(call)
        return describe_result(action, job)

    async def drain(self, factory_id: str, *, draining: bool) -> str:
        factory = await self._send(fleet.drain(factory_id, draining=draining))
        if factory.draining:
            return f"{factory.id} is draining: it takes no new jobs"
        return f"{factory.id} takes jobs again"

    async def pause(self, product_id: str, *, paused: bool, reason: str = "") -> str:
        if not paused:
            budget = await self._send(budgets.resume(product_id))
            return f"{product_id} continues: {budget.says}"
        return (await self._send(budgets.pause(product_id, reason))).says

    async def halt(self, product_id: str | None, *, halted: bool, reason: str = "") -> str:
        about = self._client.product if product_id is None else product_id
        product = None if about == "*" else about
        call = fleet.halt(product, reason=reason) if halted else fleet.resume(product)
        switch = await self._send(call)
        target = "the whole fleet" if switch.product == "*" else f"product {switch.product}"
        if switch.halted:
            return f"{target} is halted: no new job starts; H ends the halt"
        return f"{target} continues"

    async def close(self) -> None:
        await self._client.close()


def describe_result(action: str, job: JobView) -> str:
    """Return the result of an action as a sentence."""
    if action == "ship" and job.stage is Stage.TESTING:
        return f"{job.name} will be shipped by a factory"
    if action == "preempt" and job.lease is not None:
        return f"{job.lease.factory_id} was asked to save {job.name} and hand it back"
    if action == "promote":
        return f"{job.name} is at the front of its priority"
    why = f": {job.reason}" if job.reason and action not in {"reject", "cancel"} else ""
    return f"{action}: {job.name} is {job.stage.replace('_', ' ')} now{why}"


def _distinct(items: Iterable[AttentionItemView]) -> tuple[AttentionItemView, ...]:
    distinct = {(each.kind, each.subject, each.reason): each for each in items}
    return tuple(distinct.values())
