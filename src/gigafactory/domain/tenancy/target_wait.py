"""Target waits: by when a product wants its jobs begun, for each priority that it names."""

from datetime import datetime

from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.tenancy.product import Product


def due_at(job: Job, product: Product) -> datetime | None:
    """By when a waiting job should have begun; None for one that does not wait, or has no target.

    The wait begins where ageing counts from: a back-off is not held against the fleet.
    """
    target = product.target_wait.get(job.priority)
    if target is None or job.composite or job.stage is not Stage.QUEUED:
        return None
    begun = job.stage_since if job.not_before is None else max(job.stage_since, job.not_before)
    return begun + target
