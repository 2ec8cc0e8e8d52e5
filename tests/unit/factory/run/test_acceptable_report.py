"""The coordinator accepts every report of a run, whatever its agent did."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.api.http.decoding import decode_json
from gigafactory.domain.job.job import Checkpoint, Result, Stage
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.factory.run.acceptable_report import make_acceptable
from gigafactory.wire.reports import ReportDoc

PATHS = [f"{'d' * 250}/{'x' * 250}{number}" for number in range(500)]


def a_report(**fields: Any) -> Report:  # noqa: ANN401 - the fields of Report
    return Report(job_id="job-1", epoch=1, **fields)


def a_checkpoint(session: str) -> Checkpoint:
    return Checkpoint(branch="aq/job/1", commit="a" * 40, session_id=session)


def sent(report: Report) -> Report:
    """Send a report through the API's decoder."""
    doc = ReportDoc.from_domain(make_acceptable(report))
    body = msgspec.json.encode({"leaseEpoch": 1, **doc.fields})
    return decode_json(body, ReportDoc).to_domain("job-1")


@pytest.mark.parametrize(
    "fields",
    [
        {"reason": "a\x00b"},
        {"reason": "a\ud800b"},
        {"reason": "x" * 20_000},
        {"verify": {"passed": False, "output": "1 failed\x00"}},
        {"verify": {"passed": False, "output": "\x01" * 300_000, "command": "\x01" * 16_000}},
        {"usage": Usage(model="m" * 300, tokens_in=1)},
        {"usage": Usage(model="", tokens_in=1)},
        {"usage": Usage(model="m\x00", tokens_in=1)},
        {"diff": {"filesChanged": 500, "files": PATHS, "outOfScope": PATHS}},
        {"diff": {"files": ["a\udcff"]}},
        {"retry_after": timedelta(days=400)},
        {"versions": {"git": "x" * 300, "node": ""}},
        {"wall_sec": 1e9, "cpu_sec": 1e12},
        *({"checkpoint": a_checkpoint(odd)} for odd in ("-x", "x" * 300, "a\nb", "a\ud800", "")),
    ],
)
def test_a_report_is_accepted(fields: dict[str, Any]) -> None:
    ended = sent(a_report(stage=Stage.FAILED, result=Result.CRASH, **fields))
    assert (ended.stage, ended.result) == (Stage.FAILED, Result.CRASH)
    assert all(getattr(ended, name) is not None for name in fields)


@given(st.text(max_size=300), st.text(max_size=300), st.lists(st.text(max_size=50)))
def test_any_text_is_accepted(one: str, other: str, paths: list[str]) -> None:
    sent(
        a_report(
            reason=one,
            usage=Usage(model=other),
            checkpoint=a_checkpoint(one),
            verify={"output": other},
            diff={"files": paths},
        )
    )


def test_an_ordinary_report_stays_as_it_is() -> None:
    report = a_report(
        stage=Stage.TESTING,
        result=Result.OK,
        reason="done",
        checkpoint=a_checkpoint("4f2a-91c0"),
        usage=Usage(model="sonnet", tokens_in=5),
        verify={"passed": True, "output": "3 passed"},
        diff={"filesChanged": 1, "files": ["src/a b.py"]},
        versions={"git": "2.47.3"},
        wall_sec=1.5,
    )
    assert make_acceptable(report) == report
