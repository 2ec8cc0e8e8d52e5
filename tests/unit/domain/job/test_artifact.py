"""Artifacts: valid names and types, offers, and stored records."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.errors import Invalid, TooLarge
from gigafactory.domain.job.artifact import (
    ARTIFACTS_MAX,
    Artifact,
    ArtifactLink,
    ArtifactUpload,
    OrphanBlob,
    Purpose,
    add_artifact,
    artifact_name,
    delete_artifact,
    media_type,
    new_artifact,
    require_artifact_quota,
    sha256,
)
from gigafactory.domain.job.diff import DIFF_BYTES_MAX
from gigafactory.domain.job.job import Job
from tests.support.builders import NOON, a_job, a_lease, a_running_job, after

DATA = b"<h1>92 % covered</h1>\n"
DIGEST = hashlib.sha256(DATA).hexdigest()


def an_offer(**fields: object) -> ArtifactUpload:
    usual = {"name": "reports/coverage.html", "sha256": DIGEST, "media_type": "text/html"}
    return ArtifactUpload(**(usual | fields))  # type: ignore[arg-type]


def an_artifact(job: Job | None = None, **fields: object) -> Artifact:
    return new_artifact(
        job or a_running_job(),
        an_offer(**fields),
        len(DATA),
        unique="0001",
        lease=a_lease(),
        actor="factory:mac-1",
        now=after(5),
    )


@pytest.mark.parametrize(
    "name", ["a", "report.html", "a/b/c.txt", "..a/b..", ".hidden", "über uns.md", "-x", "x" * 300]
)
def test_relative_path_is_a_valid_artifact_name(name: str) -> None:
    assert artifact_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        " a",
        "a ",
        "/etc/passwd",
        "../../x",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        "..",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        "a\x1b[31m",
        "a\u202eb",
        "a\ud800b",
        "x" * 301,
        "x" * 10_000,
    ],
)
def test_escaping_or_deceptive_path_is_not_an_artifact_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"a name|a text|a relative|one line"):
        artifact_name(name)


@given(st.text(max_size=40))
def test_accepted_artifact_name_never_escapes_its_folder(text: str) -> None:
    try:
        name = artifact_name(text)
    except ValueError:
        return
    assert not name.startswith("/")
    assert ".." not in name.split("/")
    assert name.encode()


@pytest.mark.parametrize(
    "text", ["text/html", "text/plain; charset=utf-8", "image/svg+xml", "application/x.y-z"]
)
def test_http_media_type_is_accepted(text: str) -> None:
    assert media_type(text) == text


@pytest.mark.parametrize(
    "text", ["", "text", "text/", "/html", "Text/HTML", "a/b\r\nset-cookie: x", "a/b; q=1", "é/x"]
)
def test_malformed_media_type_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="media type"):
        media_type(text)


@pytest.mark.parametrize("text", ["", "abc", DIGEST.upper(), DIGEST + "\n", "g" * 64])
def test_sha256_must_be_64_lowercase_hex_digits(text: str) -> None:
    assert sha256(DIGEST) == DIGEST
    with pytest.raises(ValueError, match="64"):
        sha256(text)


def test_offer_reports_all_faults_at_once() -> None:
    offered = an_offer(name="../x", sha256="?", media_type="?")
    with pytest.raises(Invalid) as refused:
        offered.check(bytes_max=10)
    assert [fault.field for fault in refused.value.faults] == ["name", "sha256", "mediaType"]


def test_oversized_offer_is_rejected_before_upload() -> None:
    an_offer().check(bytes_max=10)
    an_offer(size=10).check(bytes_max=10)
    with pytest.raises(TooLarge, match="at most 10 bytes"):
        an_offer(size=11).check(bytes_max=10)


def test_content_that_differs_from_its_offer_is_rejected() -> None:
    an_offer().check_content(size=len(DATA), digest=DIGEST)
    an_offer(size=len(DATA)).check_content(size=len(DATA), digest=DIGEST)
    with pytest.raises(Invalid) as refused:
        an_offer(size=1).check_content(size=2, digest="0" * 64)
    assert [fault.field for fault in refused.value.faults] == ["size", "sha256"]


def test_job_accepts_a_limited_number_of_artifacts() -> None:
    require_artifact_quota(ARTIFACTS_MAX - 1)
    with pytest.raises(TooLarge, match=f"at most {ARTIFACTS_MAX} artifacts"):
        require_artifact_quota(ARTIFACTS_MAX)


def test_worker_artifact_names_its_run_and_blob() -> None:
    artifact = an_artifact()
    assert (artifact.key, artifact.blob) == ("job-1.0001", "artifacts/job-1/0001")
    assert (artifact.run_id, artifact.epoch) == ("job-1.1", 1)
    assert artifact.expires_at is None


def test_artifact_of_a_person_has_no_run() -> None:
    artifact = new_artifact(
        a_job(), an_offer(), 1, unique="1", lease=None, actor="user:ann", now=after(5)
    )
    assert (artifact.run_id, artifact.epoch, artifact.created_by) == (None, None, "user:ann")


def test_artifact_matches_the_same_file_of_the_same_run() -> None:
    artifact = an_artifact()
    assert artifact.matches(an_offer(), "job-1.1")
    assert not artifact.matches(an_offer(), "job-1.2")
    assert not artifact.matches(an_offer(), None)
    assert not artifact.matches(an_offer(name="other"), "job-1.1")
    assert not artifact.matches(an_offer(sha256="0" * 64), "job-1.1")


def test_adding_or_deleting_an_artifact_writes_an_event_and_keeps_the_stage() -> None:
    job, artifact = a_running_job(), an_artifact()
    change = add_artifact(job, artifact, now=after(5))
    assert (change.after.stage, change.after.lease) == (job.stage, job.lease)
    (event,) = change.events
    assert (event.type, event.actor, event.seq) == ("artifact_added", "factory:mac-1", 2)
    assert event.data["sha256"] == DIGEST
    assert event.data["artifactId"] == artifact.id
    (gone,) = delete_artifact(change.after, artifact, actor="user:ann", now=after(6)).events
    assert (gone.type, gone.actor, gone.seq) == ("artifact_deleted", "user:ann", 3)


def test_artifact_link_and_orphan_blob_expire_under_their_key() -> None:
    link = ArtifactLink(
        hash="h",
        artifact_id="job-1.0001",
        product_id="notes",
        token_key=None,
        created_by="user:ann",
        expires_at=NOON,
    )
    assert (link.key, link.expires_at) == ("h", NOON)
    assert OrphanBlob(key="artifacts/job-1/0001", expires_at=NOON).product_id == "*"


def test_newer_diff_of_a_run_replaces_only_its_older_diff() -> None:
    older = an_artifact(purpose=Purpose.DIFF)
    newer = an_offer(purpose=Purpose.DIFF, sha256="0" * 64)
    assert older.is_replaced_by(newer, older.run_id)
    assert not older.is_replaced_by(newer, "another run")
    assert not older.is_replaced_by(an_offer(purpose=Purpose.DIFF), older.run_id), "it is the same"
    assert not an_artifact().is_replaced_by(newer, older.run_id)
    assert not older.is_replaced_by(an_offer(sha256="0" * 64), older.run_id)
    assert add_artifact(a_running_job(), older, now=NOON).events[0].type == "diff_added"


def test_diff_has_a_smaller_size_limit_than_other_artifacts() -> None:
    with pytest.raises(TooLarge):
        an_offer(purpose=Purpose.DIFF, size=DIFF_BYTES_MAX + 1).check(bytes_max=1 << 40)
    an_offer(size=DIFF_BYTES_MAX + 1).check(bytes_max=1 << 40)
