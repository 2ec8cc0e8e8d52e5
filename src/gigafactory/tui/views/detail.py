"""More of what is chosen than its row has room for."""

from rich.text import Text

from gigafactory.domain.job.job import Stage
from gigafactory.tui.views import Scene
from gigafactory.tui.views.budgets import dollars
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.views.queue import why
from gigafactory.tui.widgets.rows import Subject
from gigafactory.tui.widgets.text import DIM, one_line
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView

NAMES_MAX = 12


def about(scene: Scene, subject: Subject | None) -> Text:
    """Two lines or so: what it is, and why it stands as it does."""
    match subject:
        case JobView():
            first, second = _job(scene, subject)
        case AttentionItemView():
            product = f"  ({subject.product_id})" if subject.product_id else ""
            first, second = f"{subject.title}{product}", subject.reason
        case FactoryView():
            first, second = _factory(subject)
        case BudgetView():
            first, second = subject.says, _budget(subject)
        case None:
            first, second = "", ""
    made = Text(one_line(first))
    return made.append("\n").append(one_line(second), DIM)


def _job(scene: Scene, job: JobView) -> tuple[str, str]:
    facts = [job.title, job.repo, job.engine, f"try {job.attempts}" if job.attempts else None]
    if scene.width >= WIDE:
        facts += [job.product_id, f"{job.priority} priority"]
    waits = job.stage in {Stage.QUEUED, Stage.BLOCKED}
    reason = why(scene, job) if waits else job.reason or ""
    return " · ".join(fact for fact in facts if fact), reason


def _factory(factory: FactoryView) -> tuple[str, str]:
    has = [*factory.labels, *factory.capabilities]
    more = f" and {len(has) - NAMES_MAX} more" if len(has) > NAMES_MAX else ""
    products = ", ".join(factory.products)
    return f"takes jobs of {products}" if products else "", " ".join(has[:NAMES_MAX]) + more


def _budget(budget: BudgetView) -> str:
    parts = [
        f"{dollars(budget.reserved_usd)} set aside for what runs",
        f"{dollars(budget.left_usd)} left" if budget.left_usd is not None else "",
        f"paused by {budget.paused_by}" if budget.paused_by else "",
    ]
    return " · ".join(part for part in parts if part)
