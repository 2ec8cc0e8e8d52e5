"""Details of the selected row."""

from rich.text import Text

from gigafactory.domain.job.job import Stage
from gigafactory.tui.views import ViewContext
from gigafactory.tui.views.budgets import format_dollars
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.views.queue import wait_reason
from gigafactory.tui.widgets.rows import Subject
from gigafactory.tui.widgets.text import DIM, one_line
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView

NAMES_MAX = 12


def describe_subject(context: ViewContext, subject: Subject | None) -> Text:
    """Return two lines: what it is, and the reason for its state."""
    match subject:
        case JobView():
            first, second = _describe_job(context, subject)
        case AttentionItemView():
            product = f"  ({subject.product_id})" if subject.product_id else ""
            first, second = f"{subject.title}{product}", subject.reason
        case FactoryView():
            first, second = _describe_factory(subject)
        case BudgetView():
            first, second = subject.says, _describe_budget(subject)
        case None:
            first, second = "", ""
    return Text(one_line(first)).append("\n").append(one_line(second), DIM)


def _describe_job(context: ViewContext, job: JobView) -> tuple[str, str]:
    facts = [job.title, job.repo, job.engine, f"attempt {job.attempts}" if job.attempts else None]
    if context.width >= WIDE:
        facts += [job.product_id, f"{job.priority} priority"]
    waits = job.stage in {Stage.QUEUED, Stage.BLOCKED}
    reason = wait_reason(context, job) if waits else job.reason or ""
    return " · ".join(fact for fact in facts if fact), reason


def _describe_factory(factory: FactoryView) -> tuple[str, str]:
    has = [*factory.labels, *factory.capabilities]
    more = f" and {len(has) - NAMES_MAX} more" if len(has) > NAMES_MAX else ""
    products = ", ".join(factory.products)
    return f"takes jobs of {products}" if products else "", " ".join(has[:NAMES_MAX]) + more


def _describe_budget(budget: BudgetView) -> str:
    parts = [
        f"{format_dollars(budget.reserved_usd)} reserved for running jobs",
        f"{format_dollars(budget.left_usd)} left" if budget.left_usd is not None else "",
        f"paused by {budget.paused_by}" if budget.paused_by else "",
    ]
    return " · ".join(part for part in parts if part)
