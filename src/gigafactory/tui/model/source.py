"""The interface between the dashboard and its data: a fleet or a folder."""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

from gigafactory.domain.job.job import Stage
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView


class DashboardSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state that the dashboard shows."""

    jobs: tuple[JobView, ...] = ()
    """The first jobs of each stage; there may be more."""
    counts: Mapping[Stage, int] = {}
    """All jobs by stage."""
    factories: tuple[FactoryView, ...] = ()
    attention: tuple[AttentionItemView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    wait_reasons: Mapping[str, str] = {}
    """By job id: why it does not run yet, for the first waiting jobs."""

    def needs_person(self, job: JobView) -> bool:
        """Return whether a job waits for a person; one to be shipped waits for a factory."""
        if job.stage is Stage.TESTING and job.lease is None:
            return any(each.subject == job.id for each in self.attention)
        return job.stage is Stage.REVIEW


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its runs and the reasons for its state."""

    job: JobView
    why: str
    """Why it is in its stage, or does not run yet."""
    reasons: tuple[str, ...] = ()
    """Everything that blocks it."""
    runs: tuple[RunView, ...] = ()
    """Newest last."""


class LogChunk(msgspec.Struct, frozen=True):
    """A piece of a log and the cursor to continue after it."""

    text: str
    cursor: str | None


class ActionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A person's input to an action."""

    reason: str = ""
    commit: str | None = None
    """The commit on the screen; if there is a newer one, the decision is refused."""


NO_INPUT = ActionInput()


class EmptyViewHints(msgspec.Struct, frozen=True, kw_only=True):
    """Texts for empty views, with the next command."""

    no_jobs: str
    no_attention: str
    no_factories: str
    no_budgets: str


class DashboardSource(Protocol):
    """A fleet or a folder. Each call may raise Refused, and then has changed nothing."""

    @property
    def name(self) -> str:
        """Return its address or path."""
        ...

    @property
    def hints(self) -> EmptyViewHints:
        """Return the texts for empty views."""
        ...

    @property
    def supported_actions(self) -> frozenset[str]:
        """Return the supported ones of `drain`, `undrain`, `pause` and `halt`."""
        ...

    async def load(self, filter_text: str) -> DashboardSnapshot:
        """Return the present state, with only the jobs that match the filter."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield each time something may have changed."""
        ...

    async def load_job(self, job_id: str) -> JobDetail:
        """Return a job with its runs and reasons."""
        ...

    def follow_log(self, job_id: str, cursor: str | None) -> AsyncGenerator[LogChunk, None]:
        """Yield the log of the newest run until it ends, from a cursor or its last lines on."""
        ...

    async def act(self, job_id: str, action: str, given: ActionInput = NO_INPUT) -> str:
        """Perform a lifecycle action on a job; return the result as a sentence."""
        ...

    async def drain(self, factory_id: str, *, draining: bool) -> str:
        """Drain a factory, or let it take jobs again."""
        ...

    async def pause(self, product_id: str, *, paused: bool, reason: str = "") -> str:
        """Pause or resume the jobs of a product."""
        ...

    async def halt(self, product_id: str | None, *, halted: bool, reason: str = "") -> str:
        """Halt or continue a product; None for everything the source covers."""
        ...

    async def close(self) -> None:
        """Release all connections and threads."""
        ...
