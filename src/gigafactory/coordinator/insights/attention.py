"""Attention items: everything that needs a person, most urgent first."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, JobQuery
from gigafactory.coordinator.fleet.budgets import Budgets
from gigafactory.coordinator.fleet.factories import Factories
from gigafactory.coordinator.fleet.halt import HaltSwitches
from gigafactory.coordinator.insights.routing import RoutingService
from gigafactory.coordinator.jobs.queries import LATE, JobQueries
from gigafactory.coordinator.lifecycle.composites import CompositeAdvancer
from gigafactory.domain.fleet.factory import is_online
from gigafactory.domain.job.job import EDITED, OVER_BUDGET, PROTECTED, Job, Stage
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.submission.submission import DEP_FAILED
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.domain.tenancy.budget import Budget, BudgetPause

EACH_MAX = 50
WARN_PERCENT = 80
"""Budget warning, in percent, from which on it becomes an attention item."""

NON_BLOCKING_FLAGS = frozenset({EDITED, OVER_BUDGET, PROTECTED})
"""Flags that do not prevent a job from starting."""


class AttentionItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that needs a person, and the actions available."""

    kind: str
    subject: str
    title: str
    since: datetime
    reason: str = ""
    actions: tuple[str, ...] = ()
    product_id: str | None = None
    commit: str | None = None
    """The commit that a decision on this item is about."""


class AttentionList:
    """Lists attention items for the web page, the terminal and notifications."""

    def __init__(
        self,
        clock: Clock,
        jobs: JobQueries,
        factories: Factories,
        switches: HaltSwitches,
        budgets: Budgets,
        composites: CompositeAdvancer,
        routings: RoutingService,
    ) -> None:
        self._composites = composites
        self._clock = clock
        self._jobs = jobs
        self._factories = factories
        self._switches = switches
        self._budgets = budgets
        self._routings = routings

    async def list(self, caller: Caller) -> Sequence[AttentionItem]:
        """Return all attention items, most urgent kind first.

        Raises Forbidden for a factory.
        """
        caller.require("read", OWN_PRODUCTS)
        return [
            *await self._halts(caller),
            *await self._budgets_needing_attention(caller),
            *await self._in_stage(caller, Stage.REVIEW, "review", "waits for a review"),
            *await self._composites_over_budget(caller),
            *await self._phases_awaiting_approval(caller),
            *await self._ready_to_ship(caller),
            *await self._in_stage(caller, Stage.DEAD_LETTER, "failed", "dead-lettered"),
            *await self._in_stage(caller, Stage.FAILED, "failed", "failed"),
            *await self._stuck(caller),
            *await self._factory_problems(caller),
            *await self._tripped_guardrails(caller),
        ]

    async def _halts(self, caller: Caller) -> Sequence[AttentionItem]:
        return [
            AttentionItem(
                kind="halted",
                subject=switch.product_id,
                title="everything is halted"
                if switch.product_id == "*"
                else f"{switch.product_id} is halted",
                since=switch.at,
                reason=f"by {switch.by}: {switch.reason}" if switch.reason else f"by {switch.by}",
                actions=("resume",),
            )
            for switch in await self._switches.all(caller)
            if switch.halted
        ]

    async def _budgets_needing_attention(self, caller: Caller) -> Sequence[AttentionItem]:
        now = self._clock.now()
        budgets = await self._budgets.all(caller)
        return [
            *(
                _paused_budget_item(b.product_id, b.pause, b.stop_reason(now) or "")
                for b in budgets
                if b.pause
            ),
            *(_budget_item(b, now) for b in budgets if b.warning_level(now) >= WARN_PERCENT),
        ]

    async def _in_stage(
        self, caller: Caller, stage: Stage, kind: str, why: str
    ) -> Sequence[AttentionItem]:
        jobs = await self._jobs.find(caller, JobQuery(stages=(stage,), limit=EACH_MAX))
        return [_job_item(job, kind, job.reason or _plan_reason(job) or why) for job in jobs]

    async def _phases_awaiting_approval(self, caller: Caller) -> Sequence[AttentionItem]:
        waiting = sorted(self._composites.awaiting_approval)[:EACH_MAX]
        return [
            _job_item(job, "phase", f"phase {job.roadmap.asked} waits for approval")
            for job in await self._jobs.find_many(caller, waiting)
            if job.roadmap is not None and job.roadmap.asked is not None
        ]

    async def _composites_over_budget(self, caller: Caller) -> Sequence[AttentionItem]:
        over = sorted(self._composites.over_budget)[:EACH_MAX]
        why = (
            "its budget is spent: no child starts; cancel it, or run it again with a larger budget"
        )
        since = self._composites.over_budget
        return [
            replace(_job_item(job, "budget", why), since=since.get(job.id, job.updated_at))
            for job in await self._jobs.find_many(caller, over)
            # A nested composite needs no item of its own.
            if job.parent_id not in since
        ]

    async def _ready_to_ship(self, caller: Caller) -> Sequence[AttentionItem]:
        jobs = await self._jobs.find(caller, JobQuery(stages=(Stage.TESTING,), limit=EACH_MAX))
        return [
            _job_item(job, "review" if job.unapproved else "ship", job.reason or "ready to ship")
            for job in jobs
            if job.ship is None
        ]

    async def _stuck(self, caller: Caller) -> Sequence[AttentionItem]:
        query = JobQuery(stages=(Stage.QUEUED, Stage.BLOCKED), limit=EACH_MAX, oldest_first=True)
        items = []
        for job in await self._jobs.find(caller, query):
            for flag in (flag for flag in job.flags if flag not in NON_BLOCKING_FLAGS):
                why = "a dependency ended without being shipped" if flag == DEP_FAILED else None
                reason = why or (await self._jobs.explain(job)).summary
                item = _job_item(job, flag, reason)
                due = self._jobs.due_at(job) if flag == LATE else None
                items.append(item if due is None else replace(item, since=due))
        return items

    async def _tripped_guardrails(self, caller: Caller) -> Sequence[AttentionItem]:
        return [
            AttentionItem(
                kind="routing_tripped",
                subject=each.product_id,
                title=f"routing of {each.product_id}",
                since=each.tripped.at,
                reason=f"{each.tripped.reason}; switched back from {each.tripped.mode}",
                product_id=each.product_id,
            )
            for each in await self._routings.list_rollouts(caller)
            if each.tripped is not None
        ]

    async def _factory_problems(self, caller: Caller) -> Sequence[AttentionItem]:
        now = self._clock.now()
        items = []
        for factory in await self._factories.all(caller):
            vitals = self._factories.vitals(factory.id)
            if vitals is not None and not is_online(vitals, now):
                items.append(
                    _factory_item(
                        "factory_offline", factory.id, "no heartbeat since then", vitals.last_seen
                    )
                )
            if (other_instance := self._factories.twin(factory.id)) is not None:
                items.append(
                    _factory_item("factory_twin", factory.id, other_instance[1], other_instance[0])
                )
            items += [
                _factory_item("engine_unavailable", factory.id, f"{name}: {seats.unavailable}", now)
                for name, seats in sorted(factory.engines.items())
                if seats.unavailable is not None
            ]
        return items


def _plan_reason(job: Job) -> str | None:
    waits = job.planner and job.stage is Stage.REVIEW
    return "its plan waits for approval" if waits else None


def _job_item(job: Job, kind: str, reason: str) -> AttentionItem:
    return AttentionItem(
        kind=kind,
        subject=job.id,
        title=job.title,
        since=job.stage_since,
        reason=reason,
        actions=actions_of(job),
        product_id=job.product_id,
        commit=job.head,
    )


def _paused_budget_item(product: str, pause: BudgetPause, reason: str) -> AttentionItem:
    return AttentionItem(
        kind="budget_paused",
        subject=product,
        title=f"{product} is paused",
        since=pause.at,
        reason=reason,
        actions=("resume",),
        product_id=product,
    )


def _budget_item(budget: Budget, now: datetime) -> AttentionItem:
    return AttentionItem(
        kind="budget",
        subject=budget.product_id,
        title=f"the budget of {budget.product_id}",
        since=budget.warned_at or now,
        reason=f"{budget.percent_spent(now)} % is spent: {budget.describe(now)}",
        product_id=budget.product_id,
    )


def _factory_item(kind: str, factory_id: str, reason: str, since: datetime) -> AttentionItem:
    return AttentionItem(
        kind=kind, subject=factory_id, title=f"factory {factory_id}", since=since, reason=reason
    )
