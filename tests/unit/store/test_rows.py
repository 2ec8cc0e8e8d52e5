"""Conversion between records and rows: omitted defaults, and changes of leases."""

import importlib
import inspect
import pkgutil

import msgspec
import pytest
from msgspec.structs import replace

from gigafactory import domain
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Job
from gigafactory.store import rows
from tests.support.builders import NOON, a_job, a_lease, a_running_job, a_step, a_submission, after

MINIMAL = """{
    "id": "job-1", "productId": "notes", "name": "fix-login", "title": "Fix the login",
    "ask": {}, "terms": {}, "contentHash": "c0ffee", "submittedBy": "user:ann",
    "createdAt": "2026-01-01T12:00:00Z", "updatedAt": "2026-01-01T12:00:00Z",
    "stageSince": "2026-01-01T12:00:00Z", "seq": 1
}"""
"""A document from the first version of this program."""

LEFT_OUT = {
    "stage": "queued",
    "kind": "leaf",
    "priority": "medium",
    "deps": [],
    "rev": 1,
    "leaseEpoch": 0,
    "offers": 0,
    "attempts": 0,
    "lost": 0,
    "runs": 0,
    "preempted": 0,
    "front": False,
    "followUps": [],
    "approvals": [],
    "fenced": [],
    "flags": [],
    "ending": [],
    "exclusions": [],
    "ask": {"needs": [], "engineClass": "agentic-coder", "prefersEngine": [], "prefers": []},
    "terms": {
        "retryMax": 0,
        "retryBackoffS": 30.0,
        "verify": False,
        "reviewByPeople": True,
        "reviewers": [],
        "quorum": 1,
        "ship": "merge",
        "autoShip": False,
        "depsMode": "hard",
        "onDepFailure": "wait",
    },
}
"""The meaning of omitted fields. Stored jobs rely on these values, so they must never change."""


def test_fields_left_out_of_a_stored_document_keep_their_meaning() -> None:
    read = msgspec.json.decode(msgspec.json.encode(rows.job_from_doc(MINIMAL, {})))
    for name, value in LEFT_OUT.items():
        if isinstance(value, dict):
            assert {key: read[name][key] for key in value} == value
        else:
            assert read[name] == value, name


def test_stored_document_omits_default_values() -> None:
    assert msgspec.json.decode(rows.job_doc(a_job())) == msgspec.json.decode(MINIMAL)
    assert rows.job_from_doc(rows.job_doc(a_job()), {}) == a_job()


def test_every_kind_of_record_is_registered() -> None:
    kept = set()
    for module in pkgutil.walk_packages(domain.__path__, "gigafactory.domain."):
        for _, type_ in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if isinstance(getattr(type_, "kind", None), str):
                kept.add(type_)
    assert set(rows.KINDS.values()) == kept
    assert all(type_.kind == kind for kind, type_ in rows.KINDS.items())


@pytest.mark.parametrize("moment", [NOON, after(0.001), after(-0.001), after(3e9 + 0.999)])
def test_timestamps_are_stored_to_the_millisecond(moment: object) -> None:
    assert rows.from_millis(rows.to_millis(msgspec.convert(moment, type(NOON)))) == moment


def steps(before: Job | None, after_: Job) -> rows.LeaseChanges:
    return rows.lease_changes(JobChange(before=before, after=after_))


def test_lease_expiry_of_a_job_comes_from_the_lease_table() -> None:
    job = a_running_job(ending=(a_lease(epoch=0),))
    read = rows.job_from_doc(
        rows.job_doc(job), {0: rows.to_millis(after(5)), 1: rows.to_millis(after(7))}
    )
    assert read == replace(
        job, lease=a_lease(expires_at=after(7)), ending=(a_lease(epoch=0, expires_at=after(5)),)
    )


def test_step_without_lease_changes_writes_no_lease_row() -> None:
    job = a_running_job(ending=(a_lease(epoch=0),))
    assert rows.lease_changes(a_step(job, title="Other")) == rows.LeaseChanges((), (), ())
    assert steps(job, replace(job, lease=a_lease(instance_id="mac-1-b"))) == rows.LeaseChanges(
        (), (), ()
    )


def test_granted_lease_is_written_whole() -> None:
    written = rows.lease_row(a_running_job(), a_lease())
    granted = steps(a_job(), a_running_job(lease=a_lease()))
    assert granted.written == (written._replace(live=True),)
    assert (granted.ended, granted.revoked) == ((), ())


def test_revoked_lease_is_kept_as_not_live() -> None:
    job = a_running_job()
    taken = steps(job, replace(job, lease=None, ending=(a_lease(),)))
    [kept] = taken.revoked
    assert (kept.epoch, kept.live) == (1, False)
    assert (taken.ended, taken.written) == ((), ())


def test_removed_lease_is_recorded_as_ended() -> None:
    job = a_running_job(ending=(a_lease(epoch=0),))
    assert steps(job, replace(job, lease=None, ending=())).ended == (0, 1)
    assert steps(job, replace(job, ending=())) == rows.LeaseChanges((0,), (), ())


def test_shortened_lease_is_written_whole() -> None:
    job = a_running_job()
    shortened = replace(job, lease=a_lease(expires_at=after(1)))
    [written] = steps(job, shortened).written
    assert (written.live, written.expires_at) == (True, rows.to_millis(after(1)))


def test_dependency_changes_list_removed_and_added_ones() -> None:
    assert rows.dep_changes(a_submission(a_job())) == rows.DepChanges(frozenset(), frozenset())
    job = a_job(deps=("a", "b", "a"))
    assert rows.dep_changes(a_submission(job)) == (frozenset(), frozenset({"a", "b"}))
    assert rows.dep_changes(a_step(job, deps=("b", "c"))) == (frozenset({"a"}), frozenset({"c"}))
