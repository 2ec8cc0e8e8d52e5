"""The actions that keys offer on the selected row."""

from enum import Enum, auto
from typing import NamedTuple

from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.tui.widgets.rows import Subject
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView


class Prompt(Enum):
    """The prompt before an action."""

    NONE = auto()
    CONFIRM = auto()
    """Yes or no."""
    TEXT = auto()
    """Text is required."""
    OPTIONAL_TEXT = auto()
    """Text may be empty."""


class KeyAction(NamedTuple):
    """An action bound to a key."""

    key: str
    name: str
    label: str
    prompt: Prompt
    question: str
    """`{}` stands for the name of the target."""


JOB_ACTIONS = (
    KeyAction("a", "approve", "approve", Prompt.NONE, ""),
    KeyAction("s", "ship", "ship", Prompt.CONFIRM, "Ship {}?"),
    KeyAction("e", "request-changes", "changes", Prompt.TEXT, "What should change in {}?"),
    KeyAction("x", "reject", "reject", Prompt.TEXT, "Why reject {}?"),
    KeyAction("r", "requeue", "requeue", Prompt.NONE, ""),
    KeyAction("c", "cancel", "cancel", Prompt.CONFIRM, "Cancel {}?"),
    KeyAction("w", "override-scope", "override", Prompt.TEXT, "Why may {} leave its scope?"),
    KeyAction("t", "promote", "promote", Prompt.NONE, ""),
    KeyAction(
        "o", "preempt", "preempt", Prompt.OPTIONAL_TEXT, "Have {} saved and handed back? Reason:"
    ),
    KeyAction("u", "release", "release", Prompt.CONFIRM, "Take {} from its factory at once?"),
    KeyAction(
        "v",
        "request-review",
        "review",
        Prompt.OPTIONAL_TEXT,
        "Request a review of {}. Comment:",
    ),
)
"""The lifecycle actions, in display order."""
DRAIN = KeyAction("d", "drain", "drain", Prompt.CONFIRM, "Drain {}? It takes no new jobs.")
UNDRAIN = KeyAction("d", "undrain", "undrain", Prompt.NONE, "")
PAUSE = KeyAction(
    "p", "pause", "pause", Prompt.OPTIONAL_TEXT, "Pause {}: no new job starts. Reason:"
)
RESUME = KeyAction("p", "resume", "resume", Prompt.NONE, "")
HALT = KeyAction("H", "halt", "halt", Prompt.OPTIONAL_TEXT, "Halt {}: no new job starts. Reason:")
END_HALT = KeyAction("H", "end-halt", "end halt", Prompt.CONFIRM, "End the halt of {}?")

ACTION_KEYS = tuple(dict.fromkeys(action.key for action in (*JOB_ACTIONS, DRAIN, PAUSE, HALT)))


class ActionTarget(NamedTuple):
    """The job, factory or product that an action applies to."""

    id: str
    name: str
    commit: str | None = None


class OfferedAction(NamedTuple):
    """An action that is available now, with its target."""

    action: KeyAction
    target: ActionTarget


PRODUCT_ITEMS = frozenset({"budget", "budget_paused"})


def actions_on(
    subject: Subject | None, snapshot: DashboardSnapshot, supported: frozenset[str]
) -> list[OfferedAction]:
    """Return the actions that the subject allows in its present state."""
    match subject:
        case JobView():
            return _job_actions(job_target(subject), subject.actions)
        case FactoryView():
            return _factory_actions(subject, supported)
        case BudgetView():
            return _product_actions(
                subject.product_id, supported, paused=subject.paused_by is not None
            )
        case AttentionItemView():
            return _item_actions(subject, snapshot, supported)
        case None:
            return []


def job_target(job: JobView) -> ActionTarget:
    """Return a job as target, at the commit on the screen."""
    return ActionTarget(job.id, job.name, job.checkpoint.commit if job.checkpoint else None)


def job_id_of(subject: Subject | None) -> str | None:
    """Return the id of the job that a row is about; None if it is about none."""
    match subject:
        case JobView():
            return subject.id
        case AttentionItemView() if _is_about_job(subject):
            return subject.subject
        case _:
            return None


def _is_about_job(item: AttentionItemView) -> bool:
    # Items about a factory have no product; items about a product have it as subject.
    return item.product_id is not None and item.subject != item.product_id


def _job_actions(target: ActionTarget, actions: tuple[str, ...]) -> list[OfferedAction]:
    return [OfferedAction(action, target) for action in JOB_ACTIONS if action.name in actions]


def _factory_actions(factory: FactoryView, supported: frozenset[str]) -> list[OfferedAction]:
    action = UNDRAIN if factory.draining else DRAIN
    target = ActionTarget(factory.id, factory.id)
    return [OfferedAction(action, target)] if action.name in supported else []


def _product_actions(
    product: str, supported: frozenset[str], *, paused: bool
) -> list[OfferedAction]:
    target = ActionTarget(product, product)
    return [OfferedAction(RESUME if paused else PAUSE, target)] if "pause" in supported else []


def _item_actions(
    item: AttentionItemView, snapshot: DashboardSnapshot, supported: frozenset[str]
) -> list[OfferedAction]:
    if item.kind == "halted":
        name = "everything" if item.subject == "*" else item.subject
        return [OfferedAction(END_HALT, ActionTarget(item.subject, name))]
    if item.kind in PRODUCT_ITEMS and item.subject == item.product_id:
        return _product_actions(item.subject, supported, paused=item.kind == "budget_paused")
    if not _is_about_job(item):
        factory = next((each for each in snapshot.factories if each.id == item.subject), None)
        if factory is not None:
            return _factory_actions(factory, supported)
        return _job_actions(ActionTarget(item.subject, item.title), item.actions)
    job = next((each for each in snapshot.jobs if each.id == item.subject), None)
    shown = ActionTarget(item.subject, item.title, item.commit)
    target = shown if job is None else job_target(job)
    return _job_actions(target, item.actions)


def halt_action(snapshot: DashboardSnapshot, source_name: str) -> OfferedAction:
    """Return the action of H on any screen: halt the source, or end the halt."""
    halted = next((each for each in snapshot.attention if each.kind == "halted"), None)
    if halted is None:
        return OfferedAction(HALT, ActionTarget("", source_name))
    name = "everything" if halted.subject == "*" else halted.subject
    return OfferedAction(END_HALT, ActionTarget(halted.subject, name))
