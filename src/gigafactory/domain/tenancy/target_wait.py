"""Target waits: by when a product wants its queued jobs to start, by priority."""

from datetime import datetime

from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.tenancy.product import Product


def target_start(job: Job, product: Product) -> datetime | None:
    """Return the time by which a queued job should start; None if not queued or without a target.

    As for ageing, the wait starts after any back-off.
    """
    target = product.target_wait.get(job.priority)
    if target is None or job.composite or job.stage is not Stage.QUEUED:
        return None
    return job.ready_since + target
