"""Worker reports on the wire."""

from datetime import timedelta

import msgspec
import pytest

from gigafactory.domain.errors import Invalid
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


def test_report_round_trips_through_json() -> None:
    sent = msgspec.json.encode(ReportDoc.from_domain(REPORT))
    assert msgspec.json.decode(sent, type=ReportDoc).to_domain("job-1") == REPORT


def test_only_set_fields_are_sent() -> None:
    assert ReportDoc.from_domain(Report(job_id="job-1", epoch=1, note="merges")).fields == {
        "note": "merges"
    }
    fields = ReportDoc.from_domain(REPORT).fields
    assert "verify" not in fields
    assert (fields["usage"]["costUsd"], fields["retryAfter"]) == ("0.25", 1.5)


def test_unknown_stage_is_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"leaseEpoch":1,"stage":"nowhere"}', type=ReportDoc)


@pytest.mark.parametrize(
    "wrong",
    [
        {"commit": "--upload-pack=touch /tmp/x"},
        {"commit": "HEAD"},
        {"commit": "4f2a91c\n"},
        {"sessionId": "--dangerously-skip-permissions"},
        {"engine": "-x"},
        {"sessionId": "a\x1b[31m"},
    ],
)
def test_a_checkpoint_that_a_program_could_take_for_an_option_is_refused(
    wrong: dict[str, str],
) -> None:
    checkpoint = {"branch": "aq/wip/job-1/1", "commit": "4f2a91c"} | wrong
    sent = msgspec.json.encode({"leaseEpoch": 1, "checkpoint": checkpoint})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(sent, type=ReportDoc)


@pytest.mark.parametrize("branch", ["--upload-pack=x", "a..b", "a b", "x.lock", "/a"])
def test_a_branch_that_git_would_not_accept_is_refused(branch: str) -> None:
    checkpoint = {"branch": branch, "commit": "4f2a91c"}
    sent = msgspec.json.encode({"leaseEpoch": 1, "checkpoint": checkpoint})
    with pytest.raises(Invalid, match=r"checkpoint\.branch"):
        msgspec.json.decode(sent, type=ReportDoc).to_domain("job-1")
