"""PgQueuer on PostgreSQL with one job per query."""

from peers import pgqueuer_peer


async def measure(dsn: str, jobs: int) -> tuple[float, float]:
    """Return jobs per second enqueued, and drained by one process, without batches."""
    return await pgqueuer_peer.measure(dsn, jobs, batch_size=1)
