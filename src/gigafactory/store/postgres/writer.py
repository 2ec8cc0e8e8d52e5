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
    """Commit a group with its job deletions atomically; return the output of `commit_batch`."""
    transaction = connection.transaction()
    await transaction.start()
    stored = False
    try:
        output = await _delete_and_commit(connection, group)
        stored = not output.refused
    finally:
        await (transaction.commit() if stored else transaction.rollback())
    return output


async def _delete_and_commit(connection: Connection, group: GroupRows) -> BatchOutput:
    await connection.execute(SQL["lock_feed"])
    for check, deletion in group.deletions:
        job = deletion.job
        wanted = (job.id, job.rev, job.seq, list(deletion.free), list(job.deps))
        if await connection.fetchval(SQL["forget_job"], *wanted) is None:
            return BatchOutput(0, [group.number], [check], [None])
    row = await connection.fetchrow(SQL["commit_batch"], *parameters([group]))
    assert row is not None, "`commit_batch` returns one row"
    return BatchOutput(*row)


EMPTY = BatchOutput(0, (), (), ())

# Plans are made once, and tables may grow a thousandfold later, so the plans must use indexes.
WRITER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


class Writer:
    """Writes one batch at a time; after an error it reconnects for the next one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)

    @property
    def backend(self) -> int | None:
        """The process id of the server side of the connection; None while disconnected."""
        if self._connection is None or self._connection.is_closed():
            return None
        return self._connection.get_server_pid()

    async def apply(self, batch: list[Group]) -> BatchResult:
        """Commit the valid groups; no two groups may share a key that one of them writes.

        Raises Unavailable if the outcome is unknown; after any other error nothing was stored.
        """
        groups = [GroupRows(next(self._numbers), writes) for writes in batch]
        valid = [group for group in groups if group.refusal is None]
        output = await self._call(valid) if valid else EMPTY
        return batch_result(groups, output)

    async def _call(self, groups: Sequence[GroupRows]) -> BatchOutput:
        deletes = any(group.deletions for group in groups)
        assert not deletes or len(groups) == 1, "a deletion is the only group of its batch"
        values = parameters(groups)
        with self._database.map_db_errors():
            connection = await self._connect()
            finished = False
            try:
                if deletes:
                    output = await commit_with_deletions(connection, groups[0])
                else:
                    row = await connection.fetchrow(SQL["commit_batch"], *values)
                    assert row is not None, "`commit_batch` returns one row"
                    output = BatchOutput(*row)
                finished = True
            except asyncpg.PostgresError as fault:
                finished = not is_unavailable(fault)
                # Our batches do not conflict, so another program does. A single group may succeed.
                if isinstance(fault, asyncpg.TransactionRollbackError) and len(groups) == 1:
                    message = f"the database at {self._database} is busy: {fault}; retry"
                    raise Unavailable(message) from fault
                raise
            finally:
                if not finished:
                    # A late response must not be read by the next batch.
                    connection.terminate()
        return output

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(**WRITER_SETTINGS)
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
