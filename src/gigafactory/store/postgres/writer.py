"""The writer connection: a batch is one function call, one round trip and one sync."""

import itertools
from collections.abc import Sequence

import asyncpg

from gigafactory.domain.errors import Unavailable
from gigafactory.store.group_commit import BatchResult, Group
from gigafactory.store.postgres.batch import BatchOutput, GroupRows, batch_result, parameters
from gigafactory.store.postgres.connection import Connection, Database, is_unavailable
from gigafactory.store.postgres.queries import SQL


async def commit_with_deletions(connection: Connection, group: GroupRows) -> BatchOutput:
    """Keep a group with its removals, whole or not at all; the answer is that of `commit_batch`."""
    transaction = connection.transaction()
    await transaction.start()
    kept = False
    try:
        answer = await _delete_and_commit(connection, group)
        kept = not answer.refused
    finally:
        await (transaction.commit() if kept else transaction.rollback())
    return answer


async def _delete_and_commit(connection: Connection, group: GroupRows) -> BatchOutput:
    await connection.execute(SQL["lock_feed"])
    for check, gone in group.deletions:
        job = gone.job
        wanted = (job.id, job.rev, job.seq, list(gone.free), list(job.deps))
        if await connection.fetchval(SQL["forget_job"], *wanted) is None:
            return BatchOutput(0, [group.number], [check], [None])
    row = await connection.fetchrow(SQL["commit_batch"], *parameters([group]))
    assert row is not None, "a function answers with one row"
    return BatchOutput(*row)


EMPTY = BatchOutput(0, (), (), ())

# Plans are made once. Tables may grow a thousandfold after that, so they have to be over indexes.
WRITER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


class Writer:
    """Writes one batch at a time; after an error it reconnects for the next one."""

    def __init__(self, database: Database) -> None:
        """Connect to this database with the first batch."""
        self._database = database
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)

    @property
    def backend(self) -> int | None:
        """The process of the server that the connection talks to."""
        if self._connection is None or self._connection.is_closed():
            return None
        return self._connection.get_server_pid()

    async def apply(self, batch: list[Group]) -> BatchResult:
        """Keep those of these groups that hold; no two may share a key that one of them writes.

        Raises Unavailable when it is not known what was kept; after anything else, nothing was.
        """
        groups = [GroupRows(next(self._numbers), writes) for writes in batch]
        sound = [group for group in groups if group.refusal is None]
        answer = await self._call(sound) if sound else EMPTY
        return batch_result(groups, answer)

    async def _call(self, groups: Sequence[GroupRows]) -> BatchOutput:
        alone = any(group.deletions for group in groups)
        assert not alone or len(groups) == 1, "a deletion has a batch of its own"
        values = parameters(groups)
        with self._database.map_db_errors():
            connection = await self._connect()
            answered = False
            try:
                if alone:
                    answer = await commit_with_deletions(connection, groups[0])
                else:
                    row = await connection.fetchrow(SQL["commit_batch"], *values)
                    assert row is not None, "a function answers with one row"
                    answer = BatchOutput(*row)
                answered = True
            except asyncpg.PostgresError as fault:
                answered = not is_unavailable(fault)
                # Batches follow each other: another program is in the way. A group alone may pass.
                if isinstance(fault, asyncpg.TransactionRollbackError) and len(groups) == 1:
                    message = f"the database at {self._database} is busy: {fault}"
                    raise Unavailable(message) from fault
                raise
            finally:
                if not answered:
                    # Nobody must read an answer that comes late.
                    connection.terminate()
        return answer

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(**WRITER_SETTINGS)
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
