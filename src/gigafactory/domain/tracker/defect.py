"""Defects that escaped: what was shipped, and had to be taken back or mended after all."""

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
"""So many jobs one text can name, and so many defects of one job are kept apart."""
REFERENCE_CHARS_MAX = 200
BUG = "bug"

_JOB_ID = re.compile(r"(?<![0-9a-z])[0-7][0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])")


class Source(StrEnum):
    """How a defect became known."""

    REVERT = "revert"
    """A commit of the base takes the work back."""
    TICKET = "ticket"
    """A bug ticket names the job."""
    PERSON = "person"


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """One defect; the same reference is the same defect, however often it is told."""

    source: Source
    reference: str
    """The commit, the ticket, or a few words."""

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.source}:{self.reference}"

    def check(self) -> None:
        """Raise Invalid for a reference that refers to nothing."""
        if not self.reference.strip() or len(self.reference) > REFERENCE_CHARS_MAX:
            fault = f"has {len(self.reference)} characters; expected 1 to {REFERENCE_CHARS_MAX}"
            raise Invalid("the defect", [Fault("reference", fault)])


def job_ids_in(text: str) -> tuple[str, ...]:
    """The jobs that a text names by their ids, each once."""
    return tuple(dict.fromkeys(_JOB_ID.findall(text.lower())))[:NAMED_MAX]


def job_ids_in_ticket(item: Ticket) -> tuple[str, ...]:
    """The jobs that a ticket complains of; one that is no bug complains of nothing."""
    bug = item.type.lower() == BUG or any(
        label.lower().rpartition(":")[2] == BUG for label in item.labels
    )
    return job_ids_in(f"{item.title}\n{item.description}") if bug else ()


def report_defect(job: Job, defect: Defect, by: str, *, now: datetime) -> JobChange | None:
    """The job with a defect that was found after it was shipped; None when it is known.

    Raises Invalid, IllegalTransition for what was not shipped, Conflict for one defect too many.
    """
    defect.check()
    if defect.key in job.defects:
        return None
    if job.stage is not Stage.SHIPPED:
        hint = "only what was shipped can have let a defect through"
        raise IllegalTransition(job.id, job.stage, Stage.SHIPPED, hint)
    if len(job.defects) >= NAMED_MAX:
        raise Conflict(f"job {job.id} has {NAMED_MAX} defects already; one more changes nothing")
    note = {"source": defect.source, "reference": defect.reference, "by": by}
    change = transition(job, None, (event_types.DEFECT_REPORTED, note), actor=by, now=now)
    return replace(change, after=replace(change.after, defects=(*job.defects, defect.key)))
