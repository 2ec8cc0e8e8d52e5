"""What can be done about what is chosen, and by which key."""

from enum import Enum, auto
from typing import NamedTuple

from gigafactory.tui.model.source import Snapshot
from gigafactory.tui.widgets.rows import Subject
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView


class Asks(Enum):
    """What a person is asked before something is done."""

    NOTHING = auto()
    SURE = auto()
    """Whether they are sure."""
    WORDS = auto()
    """For words, without which it is not done."""
    MAYBE = auto()
    """For words, which may be none."""


class Deed(NamedTuple):
    """Something that one key does."""

    key: str
    action: str
    label: str
    asks: Asks
    question: str
    """With a place for what it is about."""


ON_JOBS = (
    Deed("a", "approve", "approve", Asks.NOTHING, ""),
    Deed("s", "ship", "ship", Asks.SURE, "Ship {}?"),
    Deed("e", "request-changes", "changes", Asks.WORDS, "What is to be changed in {}?"),
    Deed("x", "reject", "reject", Asks.WORDS, "Why is {} rejected?"),
    Deed("r", "requeue", "requeue", Asks.NOTHING, ""),
    Deed("c", "cancel", "cancel", Asks.SURE, "Cancel {}?"),
    Deed("w", "override-scope", "override", Asks.WORDS, "Why may {} leave its scope?"),
    Deed("t", "promote", "to front", Asks.NOTHING, ""),
    Deed("o", "preempt", "hand back", Asks.MAYBE, "Have {} saved and handed back? Why:"),
    Deed("u", "release", "take away", Asks.SURE, "Take {} from its factory at once?"),
    Deed("v", "request-review", "ask review", Asks.MAYBE, "Ask for a review of {}. Look at:"),
)
"""The actions of the lifecycle, in the order in which they are shown."""
DRAIN = Deed("d", "drain", "drain", Asks.SURE, "Have {} take nothing new?")
UNDRAIN = Deed("d", "undrain", "undrain", Asks.NOTHING, "")
PAUSE = Deed("p", "pause", "pause", Asks.MAYBE, "Give nothing of {} out. Why:")
RESUME = Deed("p", "resume", "resume", Asks.NOTHING, "")
HALT = Deed("H", "halt", "halt", Asks.MAYBE, "Halt {}: nothing more is given out. Why:")
LIFT = Deed("H", "lift", "lift halt", Asks.SURE, "Let {} go on?")

KEYS = tuple(dict.fromkeys(deed.key for deed in (*ON_JOBS, DRAIN, PAUSE, HALT)))


class Target(NamedTuple):
    """What something is done to."""

    id: str
    name: str
    commit: str | None = None


class Choice(NamedTuple):
    """Something that can be done now, and to what."""

    deed: Deed
    target: Target


OF_PRODUCTS = frozenset({"budget", "budget_paused"})


def choices(about: Subject | None, seen: Snapshot, offers: frozenset[str]) -> list[Choice]:
    """All that can be done about what is chosen; what its stage does not allow is not among it."""
    match about:
        case JobView():
            return _on_job(target_of(about), about.actions)
        case FactoryView():
            return _on_factory(about, offers)
        case BudgetView():
            return _on_product(about.product_id, offers, paused=about.paused_by is not None)
        case AttentionItemView():
            return _on_matter(about, seen, offers)
        case None:
            return []


def target_of(job: JobView) -> Target:
    """A job, at the commit that is on the screen."""
    return Target(job.id, job.name, job.checkpoint.commit if job.checkpoint else None)


def job_of(about: Subject | None) -> str | None:
    """The job that something is about, if it is about one."""
    match about:
        case JobView():
            return about.id
        case AttentionItemView() if _is_of_job(about):
            return about.subject
        case _:
            return None


def _is_of_job(matter: AttentionItemView) -> bool:
    # What is about a product or a machine names no product, or is the product's own.
    return matter.product_id is not None and matter.subject != matter.product_id


def _on_job(target: Target, actions: tuple[str, ...]) -> list[Choice]:
    return [Choice(deed, target) for deed in ON_JOBS if deed.action in actions]


def _on_factory(factory: FactoryView, offers: frozenset[str]) -> list[Choice]:
    deed = UNDRAIN if factory.draining else DRAIN
    target = Target(factory.id, factory.id)
    return [Choice(deed, target)] if deed.action in offers else []


def _on_product(product: str, offers: frozenset[str], *, paused: bool) -> list[Choice]:
    target = Target(product, product)
    return [Choice(RESUME if paused else PAUSE, target)] if "pause" in offers else []


def _on_matter(matter: AttentionItemView, seen: Snapshot, offers: frozenset[str]) -> list[Choice]:
    if matter.kind == "halted":
        name = "everything" if matter.subject == "*" else matter.subject
        return [Choice(LIFT, Target(matter.subject, name))]
    if matter.kind in OF_PRODUCTS and matter.subject == matter.product_id:
        return _on_product(matter.subject, offers, paused=matter.kind == "budget_paused")
    if not _is_of_job(matter):
        factory = next((each for each in seen.factories if each.id == matter.subject), None)
        if factory is not None:
            return _on_factory(factory, offers)
        return _on_job(Target(matter.subject, matter.title), matter.actions)
    job = next((each for each in seen.jobs if each.id == matter.subject), None)
    target = Target(matter.subject, matter.title) if job is None else target_of(job)
    return _on_job(target, matter.actions)


def switch(seen: Snapshot, name: str) -> Choice:
    """What H does wherever one is: halt what the plane is about, or lift what is halted."""
    halted = next((each for each in seen.matters if each.kind == "halted"), None)
    if halted is None:
        return Choice(HALT, Target("", name))
    about = "everything" if halted.subject == "*" else halted.subject
    return Choice(LIFT, Target(halted.subject, about))
