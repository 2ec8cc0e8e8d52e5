"""Texts that PostgreSQL cannot store: kept in documents, refused as keys, never found."""

import asyncio

import pytest

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.errors import Invalid
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.change import Renewal, Stored
from gigafactory.store.postgres.store import PostgresStore
from tests.support.builders import NOON, a_job, a_submission, an_event


async def test_documents_keep_nul_and_unusual_characters(database: str) -> None:
    said = {"line": "a\0b\u2028\\u0000", "nested": ["\0"]}
    job = a_job(reason="because of \0")
    async with PostgresStore.open(database) as store:
        await store.commit(a_submission(job, events=(an_event(job, "said", data=said),)))
        assert await store.job(job.id) == job
        (event,) = await store.events(job.id)
        assert event.data == said


async def test_unstorable_key_is_rejected_without_failing_concurrent_commits(
    database: str,
) -> None:
    jobs = [a_job(id=f"job-{n}", name=f"name-{n}") for n in range(6)]
    bad = a_submission(jobs[0], take=("name/\0",))
    async with PostgresStore.open(database) as store:
        answers = await asyncio.gather(
            *(store.commit(change) for change in (bad, *map(a_submission, jobs[1:]))),
            return_exceptions=True,
        )
        assert isinstance(answers[0], Invalid)
        assert all(isinstance(answer, Stored) for answer in answers[1:])
        assert set(await store.jobs([job.id for job in jobs])) == {job.id for job in jobs[1:]}


async def test_out_of_range_number_is_rejected(database: str) -> None:
    async with PostgresStore.open(database) as store:
        with pytest.raises(Invalid):
            await store.commit(Renewal("job-1", 10**30, NOON))


async def test_unstorable_name_finds_nothing(database: str) -> None:
    async with PostgresStore.open(database) as store:
        await store.commit(a_submission(a_job(), take=("name/fix-login",)))
        assert await store.job("job-1\0") is None
        assert set(await store.jobs(["job-1", "\0"])) == {"job-1"}
        assert await store.key_owners(["\0", "name/fix-login"]) == {"name/fix-login": "job-1"}
        assert await store.keys_with_prefix("\0") == {}
        assert await store.record(Factory, "\0") is None
        assert await store.find_jobs(JobQuery(name="\0")) == []
        assert await store.find_jobs(JobQuery(name="\ud800")) == []
        assert [job.id for job in await store.find_jobs(JobQuery(text="fix\0log"))] == ["job-1"]
        assert await store.events("job-1", after=10**30) == []


async def test_word_too_long_for_the_index_is_found(database: str) -> None:
    word = "ж" * 3_000
    job = a_job(title=f"{word} and more")
    async with PostgresStore.open(database) as store:
        await store.commit(a_submission(job))
        assert await store.find_jobs(JobQuery(text=f"more {word}")) == [job]
