"""What the dashboard needs of the world: a fleet and a folder both are such a plane."""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

from gigafactory.domain.job.job import Stage
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown at a moment."""

    jobs: tuple[JobView, ...] = ()
    """Of each stage those that come first; there may be more."""
    counts: Mapping[Stage, int] = {}
    """How many there really are."""
    factories: tuple[FactoryView, ...] = ()
    matters: tuple[AttentionItemView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    why: Mapping[str, str] = {}
    """By job: why it does not run yet, as far as it was asked for."""

    def is_turn(self, job: JobView) -> bool:
        """Whether a job waits for a person; one that was asked to ship waits for a factory."""
        if job.stage is Stage.TESTING and job.lease is None:
            return any(each.subject == job.id for each in self.matters)
        return job.stage is Stage.REVIEW


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One job from near."""

    job: JobView
    why: str
    """Why it is where it is, or does not run yet."""
    reasons: tuple[str, ...] = ()
    """All that stands in its way."""
    runs: tuple[RunView, ...] = ()
    """The newest last."""


class LogPart(msgspec.Struct, frozen=True):
    """A piece of a log, and the mark to go on from after it."""

    text: str
    mark: str | None


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a person adds to an action."""

    reason: str = ""
    commit: str | None = None
    """The commit that was on the screen: when there is a newer one, the decision is void."""


NO_WISH = Wish()


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What a plane says, and what can be done next, where there is nothing to show."""

    no_jobs: str
    no_matters: str
    no_factories: str
    no_budgets: str


class Plane(Protocol):
    """A fleet, or a folder. Whatever is asked of it may raise Refused; nothing then has changed."""

    @property
    def name(self) -> str:
        """Where it is: an address, or a path."""
        ...

    @property
    def hints(self) -> Hints:
        """What to do where nothing is to be seen."""
        ...

    @property
    def offers(self) -> frozenset[str]:
        """What can be done beside actions on jobs: `drain`, `undrain`, `pause` and `halt`."""
        ...

    async def look(self, text: str) -> Snapshot:
        """How everything stands now; with a text, the jobs that have its words."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """One word each time that something may have changed."""
        ...

    async def detail(self, job_id: str) -> Detail:
        """One job from near."""
        ...

    def log(self, job_id: str, after: str | None) -> AsyncGenerator[LogPart, None]:
        """What the newest run of a job prints, from a mark on or its last lines, to its end."""
        ...

    async def act(self, job_id: str, action: str, wish: Wish = NO_WISH) -> str:
        """Do something to a job; what came of it, in words."""
        ...

    async def drain(self, factory_id: str, *, draining: bool) -> str:
        """Have a factory take nothing new, or take work again."""
        ...

    async def pause(self, product_id: str, *, paused: bool, reason: str = "") -> str:
        """Give nothing of a product out, or lift that."""
        ...

    async def halt(self, product_id: str | None, *, halted: bool, reason: str = "") -> str:
        """Give nothing out at all, or lift that; without a product: of what the plane is about."""
        ...

    async def close(self) -> None:
        """Let everything go."""
        ...
