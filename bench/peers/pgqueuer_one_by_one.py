"""PgQueuer on PostgreSQL, fetching each job by itself."""

from peers import pgqueuer_peer


async def measure(dsn: str, jobs: int) -> tuple[float, float]:
    """Jobs per second enqueued one by one, and drained one by one by one process."""
    return await pgqueuer_peer.measure(dsn, jobs, batch_size=1)
