"""A group that also removes jobs: in one transaction, of more than one statement."""

from gigafactory.store.postgres.batch import Answer, GroupRows, parameters
from gigafactory.store.postgres.connection import Connection
from gigafactory.store.postgres.queries import SQL


async def commit_alone(connection: Connection, group: GroupRows) -> Answer:
    """Keep a group with its removals, whole or not at all; the answer is that of `commit_batch`."""
    transaction = connection.transaction()
    await transaction.start()
    kept = False
    try:
        answer = await _applied(connection, group)
        kept = not answer.refused
    finally:
        await (transaction.commit() if kept else transaction.rollback())
    return answer


async def _applied(connection: Connection, group: GroupRows) -> Answer:
    await connection.execute(SQL["lock_feed"])
    for check, gone in group.forgotten:
        job = gone.job
        wanted = (job.id, job.rev, job.seq, list(gone.free), list(job.deps))
        if await connection.fetchval(SQL["forget_job"], *wanted) is None:
            return Answer(0, [group.number], [check], [None])
    row = await connection.fetchrow(SQL["commit_batch"], *parameters([group]))
    assert row is not None, "a function answers with one row"
    return Answer(*row)
