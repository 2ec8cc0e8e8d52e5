"""Tickets: the job that a tracker item asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Invalid
from gigafactory.domain.manifest.manifest import content_hash
from gigafactory.domain.tracker.ticket import (
    Ticket,
    digest_of,
    is_handed_over,
    job_file_of,
    ticket_key,
    with_key,
)

ITEM = Ticket(
    id="ITEM-789",
    title="Fix the login",
    description="It fails with a blank password.\r\n",
    priority="high",
    labels=("agent:run", "profile:qa", "cap:os:linux", "cap:has:node", "engine-class:chat-coder"),
)


def test_title_and_description_become_the_body_and_labels_the_manifest() -> None:
    file = job_file_of(ITEM, repo="notes")
    assert file.body == "# Fix the login\n\nIt fails with a blank password.\n"
    manifest = file.manifest
    assert (manifest.title, manifest.priority, manifest.profile) == ("Fix the login", "high", "qa")
    assert (manifest.engine_class, manifest.repo) == ("chat-coder", "notes")
    assert manifest.capabilities == ("has:node", "os:linux")
    assert (manifest.tracker_item, manifest.idempotency_key, manifest.kind) == (
        "ITEM-789",
        None,
        None,
    )


def test_labels_override_the_priority_and_repo_of_the_ticket() -> None:
    file = job_file_of(replace(ITEM, labels=("priority:low", "repo:web")), repo="notes")
    assert (file.manifest.priority, file.manifest.repo) == ("low", "web")


def test_ticket_without_description_or_known_priority_becomes_a_job() -> None:
    file = job_file_of(Ticket(id="7", title="Say\thello", priority="p1", labels=("bug", "cap:")))
    assert file.body == "# Say hello\n"
    assert file.manifest.priority is None


def test_ticket_without_a_title_is_titled_by_its_id() -> None:
    assert job_file_of(Ticket(id="7", title="\n")).manifest.title == "7"


def test_roadmap_ticket_becomes_a_composite() -> None:
    assert job_file_of(Ticket(id="7", title="All", labels=("kind:roadmap",))).manifest.kind == (
        "composite"
    )


def test_invalid_ticket_reports_all_faults_at_once() -> None:
    labels = ("profile:qa", "profile:developer", "priority:soon", "repo:--upload-pack=x")
    with pytest.raises(Invalid) as wrong:
        job_file_of(Ticket(id="7", title="x", labels=labels))
    assert wrong.value.what == "the ticket 7"
    assert {fault.field for fault in wrong.value.faults} == {"profile", "priority", "repo"}


def test_two_labels_for_one_field_are_rejected() -> None:
    with pytest.raises(Invalid, match="two labels profile"):
        job_file_of(Ticket(id="7", title="x", labels=("profile:qa", "profile:developer")))


def test_ticket_description_with_nul_is_rejected() -> None:
    with pytest.raises(Invalid, match="the ticket 7"):
        job_file_of(Ticket(id="7", title="x", description="a\0b"))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"labels": ()}, False),
        ({"labels": (), "assignees": ("@agent",)}, True),
        ({"labels": (), "assignees": ("ann",)}, False),
        ({"status": "in_progress"}, True),
        ({"status": "done"}, False),
        ({"status": "wont_fix"}, False),
        ({"labels": ("agent:run", "needs-triage")}, False),
    ],
)
def test_ticket_is_handed_over_by_label_or_assignee(
    change: dict[str, object], *, wanted: bool
) -> None:
    assert is_handed_over(replace(ITEM, **change), "agent") is wanted


@given(st.sampled_from(["fleet:building", "needs-triage", "fleet:x"]))
def test_fleet_labels_and_status_do_not_change_the_job_of_a_ticket(label: str) -> None:
    marked = replace(ITEM, labels=(*ITEM.labels, label), status="in_progress")
    assert job_file_of(marked) == job_file_of(ITEM)
    assert digest_of(marked) == digest_of(ITEM)


@given(st.text(max_size=50).filter(str.strip))
def test_edited_description_changes_the_digest(text: str) -> None:
    changed = replace(ITEM, description=f"{text}!")
    assert digest_of(changed) != digest_of(ITEM)


def test_idempotency_key_is_not_part_of_the_content_hash() -> None:
    file = job_file_of(ITEM)
    keyed = with_key(file, ticket_key("ITEM-789"))
    assert keyed.manifest.idempotency_key == "tracker-ITEM-789"
    assert content_hash(keyed.manifest, file.body) == content_hash(file.manifest, file.body)
    assert ticket_key("ITEM-789", 2) == "tracker-ITEM-789.2"
