"""Escaped defects: problems of shipped jobs, known from reverts, bug tickets or people."""

import re
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, Fault, IllegalTransition, Invalid
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.tracker.ticket import Ticket

NAMED_MAX = 20
"""The most jobs that one text can name, and the most defects kept per job."""
REFERENCE_CHARS_MAX = 200
BUG = "bug"

_JOB_ID = re.compile(r"(?<![0-9a-z])[0-7][0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])")


class DefectSource(StrEnum):
    """How a defect became known."""

    REVERT = "revert"
    """A commit on the base branch reverts the work."""
    TICKET = "ticket"
    """A bug ticket names the job."""
    PERSON = "person"


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """One defect; reports with the same reference are the same defect."""

    source: DefectSource
    reference: str
    """The commit, the ticket, or a short text."""

    @property
    def key(self) -> str:
        """The unique key within its job."""
        return f"{self.source}:{self.reference}"

    def check(self) -> None:
        """Raise Invalid for an empty or too long reference."""
        if not self.reference.strip() or len(self.reference) > REFERENCE_CHARS_MAX:
            fault = f"has {len(self.reference)} characters; expected 1 to {REFERENCE_CHARS_MAX}"
            raise Invalid("the defect", [Fault("reference", fault)])


def job_ids_in(text: str) -> tuple[str, ...]:
    """Return the unique job ids in a text."""
    return tuple(dict.fromkeys(_JOB_ID.findall(text.lower())))[:NAMED_MAX]


def job_ids_in_ticket(item: Ticket) -> tuple[str, ...]:
    """Return the job ids in a bug ticket; () for other tickets."""
    bug = item.type.lower() == BUG or any(
        label.lower().rpartition(":")[2] == BUG for label in item.labels
    )
    return job_ids_in(f"{item.title}\n{item.description}") if bug else ()


def report_defect(job: Job, defect: Defect, by: str, *, now: datetime) -> JobChange | None:
    """Record a defect of a shipped job; None if it is already known.

    Raises Invalid, IllegalTransition if the job was not shipped, Conflict for too many defects.
    """
    defect.check()
    if defect.key in job.defects:
        return None
    if job.stage is not Stage.SHIPPED:
        hint = "only a shipped job can have an escaped defect"
        raise IllegalTransition(job.id, job.stage, Stage.SHIPPED, hint)
    if len(job.defects) >= NAMED_MAX:
        raise Conflict(f"job {job.id} has {NAMED_MAX} defects already; one more changes nothing")
    note = {"source": defect.source, "reference": defect.reference, "by": by}
    change = transition(job, None, (event_types.DEFECT_REPORTED, note), actor=by, now=now)
    return replace(change, after=replace(change.after, defects=(*job.defects, defect.key)))
