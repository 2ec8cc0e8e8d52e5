"""Worker reports on the wire."""

from datetime import timedelta

import msgspec
import pytest

from gigafactory.domain.job.job import Checkpoint, Result, Stage
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.wire.reports import ReportDoc

REPORT = Report(
    job_id="job-1",
    epoch=2,
    stage=Stage.FAILED,
    result=Result.OVERLOADED,
    reason="busy",
    checkpoint=Checkpoint(branch="b", commit="c", factory_id="mac-1"),
    usage=Usage(tokens_in=3, cost_nano_usd=250_000_000),
    retry_after=timedelta(seconds=1.5),
    versions={"git": "2.47.3"},
    wall_sec=60.5,
    cpu_sec=7.25,
)


def test_a_report_is_the_same_after_it_was_sent() -> None:
    sent = msgspec.json.encode(ReportDoc.from_domain(REPORT))
    assert msgspec.json.decode(sent, type=ReportDoc).to_domain("job-1") == REPORT


def test_only_what_is_set_is_sent() -> None:
    assert ReportDoc.from_domain(Report(job_id="job-1", epoch=1, note="merges")).fields == {
        "note": "merges"
    }
    fields = ReportDoc.from_domain(REPORT).fields
    assert "verify" not in fields
    assert (fields["usage"]["costUsd"], fields["retryAfter"]) == ("0.25", 1.5)


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"leaseEpoch":1,"stage":"nowhere"}', type=ReportDoc)
