"""Responses that are stored under an idempotency key."""

from pathlib import Path

from msgspec.structs import replace

from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from tests.support.memory_coordinator import CoordinatorHarness

SAM = Caller(
    actor="user:sam",
    role=Role.OPERATOR,
    products=("notes",),
    product="notes",
    request_key="monday",
)
JOB = parse_json_job({"manifest": {"name": "report"}, "body": "Write it."})


async def test_an_answer_that_an_older_version_kept_is_repeated(tmp_path: Path) -> None:
    house = CoordinatorHarness(tmp_path)
    fleet = await house.coordinator()
    first = (await fleet.submissions.submit(SAM, [JOB])).jobs[0]
    kept = await house.store.record(IdempotencyRecord, "user:sam notes/monday")
    assert kept is not None
    await house.store.commit(
        RecordChange(before=kept, after=None),
        RecordChange(before=None, after=replace(kept, key="user:sam/monday", rev=1)),
    )
    again = (await fleet.submissions.submit(SAM, [JOB])).jobs[0]
    assert again.id == first.id


async def test_a_namesake_with_another_scope_has_keys_of_their_own(tmp_path: Path) -> None:
    fleet = await CoordinatorHarness(tmp_path).coordinator()
    first = (await fleet.submissions.submit(SAM, [JOB])).jobs[0]
    namesake = replace(SAM, products=("bravo",), product="bravo")
    theirs = (await fleet.submissions.submit(namesake, [JOB])).jobs[0]
    assert (first.product_id, theirs.product_id) == ("notes", "bravo")
