"""Makes every report acceptable: a refused one would lose the result of a run.

What it says comes from agents and programs: NUL bytes, odd session ids, very many paths.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.job import Checkpoint
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.wire.reports import CPU_SECONDS_MAX, DOC_BYTES_MAX, SECONDS_MAX, Plain

SENTENCE_CHARS_MAX = 10_000
WORD_CHARS_MAX = 200
TEXT_CHARS_MAX = 50_000

# Neither JSON nor a database holds half of a character pair, and PostgreSQL holds no NUL.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def make_acceptable(report: Report) -> Report:
    """Return the report as the coordinator accepts it: what does not fit is shortened or left out.

    A session id that a program could take for an option is left out, so the job resumes without it.
    """
    return replace(
        report,
        reason=_text(report.reason, SENTENCE_CHARS_MAX),
        note=_text(report.note, SENTENCE_CHARS_MAX),
        checkpoint=_checkpoint(report.checkpoint),
        usage=_usage(report.usage),
        verify=_document(report.verify),
        diff=_document(report.diff),
        versions=_versions(report.versions),
        retry_after=_at_most(report.retry_after, timedelta(seconds=SECONDS_MAX)),
        wall_sec=_at_most(report.wall_sec, SECONDS_MAX),
        cpu_sec=_at_most(report.cpu_sec, CPU_SECONDS_MAX),
    )


def _text(text: str | None, chars_max: int) -> str | None:
    if text is None:
        return None
    kept = _UNSTORABLE.sub("\ufffd", text)
    return kept if len(kept) <= chars_max else kept[: chars_max - 1] + "…"


def _checkpoint(checkpoint: Checkpoint | None) -> Checkpoint | None:
    if checkpoint is None or checkpoint.session_id is None:
        return checkpoint
    try:
        msgspec.convert(checkpoint.session_id, Plain)
    except msgspec.ValidationError:
        return replace(checkpoint, session_id=None)
    return replace(checkpoint, session_id=_text(checkpoint.session_id, WORD_CHARS_MAX))


def _usage(usage: Usage | None) -> Usage | None:
    if usage is None:
        return None
    return replace(usage, model=_text(usage.model, WORD_CHARS_MAX) or None)


def _versions(versions: Mapping[str, str] | None) -> dict[str, str] | None:
    if versions is None:
        return None
    return {name: kept for name, text in versions.items() if (kept := _text(text, WORD_CHARS_MAX))}


def _at_most(given: Any, most: Any) -> Any:  # noqa: ANN401 - seconds or a duration
    return None if given is None else min(given, most)


def _document(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the document with storable texts; halve its lists until it is small enough."""
    if document is None:
        return None
    kept = {name: _member(value) for name, value in document.items()}
    while len(msgspec.json.encode(kept)) > DOC_BYTES_MAX:
        kept = {
            name: value[: len(value) // 2] if isinstance(value, list | str) else value
            for name, value in kept.items()
        }
    return kept


def _member(value: object) -> object:
    if isinstance(value, str):
        return _text(value, TEXT_CHARS_MAX)
    return [_member(item) for item in value] if isinstance(value, list) else value
