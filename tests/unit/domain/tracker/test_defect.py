"""Defects of shipped jobs: how they are found, and that each counts once."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, IllegalTransition, Invalid
from gigafactory.domain.job.job import Stage
from gigafactory.domain.tracker.defect import (
    NAMED_MAX,
    REFERENCE_CHARS_MAX,
    Defect,
    DefectSource,
    job_ids_in,
    job_ids_in_ticket,
    report_defect,
)
from gigafactory.domain.tracker.ticket import Ticket
from tests.support.builders import NOON, a_job, after

ONE, TWO = "01m7j9fdf3fc15awewhz9cxbmq", "01m7j9fg47m2pwrkr5t7kdfkaz"
REVERT = Defect(source=DefectSource.REVERT, reference="4f2a91c")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"broken since {ONE}", (ONE,)),
        (f"{TWO}, {ONE.upper()} and {TWO} again", (TWO, ONE)),
        (f"aq/job/{ONE}.", (ONE,)),
        (f"x{ONE}", ()),
        (f"{ONE}0", ()),
        ("nothing of ours", ()),
    ],
)
def test_job_ids_are_found_in_text(text: str, named: tuple[str, ...]) -> None:
    assert job_ids_in(text) == named


def test_number_of_job_ids_found_in_text_is_limited() -> None:
    many = " ".join(f"01m7j9fdf3fc15awewhz9cx{number:03}" for number in range(100, 140))
    assert len(job_ids_in(many)) == NAMED_MAX


@pytest.mark.parametrize(
    ("fields", "complains"),
    [
        ({"type": "bug"}, True),
        ({"type": "Bug"}, True),
        ({"labels": ("area:web", "bug")}, True),
        ({"labels": ("type:bug",)}, True),
        ({"labels": ("debug",)}, False),
        ({}, False),
    ],
)
def test_job_ids_are_read_only_from_bug_tickets(
    fields: dict[str, object], *, complains: bool
) -> None:
    item = replace(Ticket(id="7", title="It broke", description=f"by {ONE}"), **fields)
    assert job_ids_in_ticket(item) == ((ONE,) if complains else ())


def test_defect_is_recorded_once_with_an_event() -> None:
    shipped = a_job(stage=Stage.SHIPPED)
    change = report_defect(shipped, REVERT, "user:ann", now=after(5))
    assert change is not None
    assert change.after.defects == ("revert:4f2a91c",)
    assert change.after.stage is Stage.SHIPPED
    [event] = change.events
    result = {"source": "revert", "reference": "4f2a91c", "by": "user:ann"}
    assert (event.type, event.data) == ("defect_reported", result)
    assert report_defect(change.after, REVERT, "factory:mac-1", now=after(9)) is None


def test_defect_of_a_job_that_was_not_shipped_is_rejected() -> None:
    with pytest.raises(IllegalTransition, match="only a shipped job"):
        report_defect(a_job(stage=Stage.TESTING), REVERT, "user:ann", now=NOON)


def test_number_of_defects_of_a_job_is_limited() -> None:
    known = tuple(f"person:{number}" for number in range(NAMED_MAX))
    with pytest.raises(Conflict, match="already"):
        report_defect(a_job(stage=Stage.SHIPPED, defects=known), REVERT, "user:ann", now=NOON)


@pytest.mark.parametrize("reference", ["", "  ", "x" * (REFERENCE_CHARS_MAX + 1)])
def test_empty_or_oversized_defect_reference_is_rejected(reference: str) -> None:
    defect = Defect(source=DefectSource.PERSON, reference=reference)
    with pytest.raises(Invalid, match="expected 1 to"):
        report_defect(a_job(stage=Stage.SHIPPED), defect, "user:ann", now=NOON)
