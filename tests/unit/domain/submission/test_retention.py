"""Retention: when a finished job may be removed, and the record that remains."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import JobArchived
from gigafactory.domain.job.job import FINAL, Lease, Stage
from gigafactory.domain.submission.retention import (
    archive_job,
    delete_job,
    is_due,
)
from tests.support.builders import NOON, a_job, a_lease

DAY = timedelta(days=1)


LEASES = st.none() | st.just(a_lease())


@given(st.sampled_from(Stage), st.integers(-5, 5), LEASES, LEASES)
def test_only_old_finished_jobs_without_leases_are_due(
    stage: Stage, days: int, lease: Lease | None, ending: Lease | None
) -> None:
    job = replace(
        a_job(stage=stage), updated_at=NOON, lease=lease, ending=(ending,) if ending else ()
    )
    expected = stage in FINAL and days >= 0 and lease is None and ending is None
    assert is_due(job, DAY, now=NOON + DAY + days * DAY) is expected


def test_deleted_job_frees_its_name_and_idempotency_key() -> None:
    job = a_job(stage=Stage.SHIPPED)
    assert delete_job(job).free == (f"name/{job.product_id}/{job.name}",)
    keyed = replace(job, idempotency_key="k-1")
    assert delete_job(keyed).free[1:] == (f"key/{job.product_id}/k-1",)


def test_archived_job_record_names_its_blob() -> None:
    job = a_job(stage=Stage.FAILED)
    left = archive_job(job, size=9, sha256="0" * 64, now=NOON + DAY)
    assert (left.key, left.blob) == (job.id, f"archive/{job.id}/job.jsonl.gz")
    assert (left.stage, left.finished_at, left.archived_at) == (
        Stage.FAILED,
        job.updated_at,
        NOON + DAY,
    )


def test_archived_job_error_names_the_command_to_read_it() -> None:
    with pytest.raises(
        JobArchived, match="archived on 2026-01-02: read it with `aq archive show j`"
    ):
        raise JobArchived("j", "2026-01-02")
