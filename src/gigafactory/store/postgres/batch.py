"""Translate groups of writes to the parameters of `commit_batch`, and its output to verdicts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gigafactory.domain.job.change import (
    CommitResult,
    FactoriesSeen,
    FeedEntry,
    Guard,
    JobChange,
    JobDeletion,
    KeyTaken,
    LeaseExpiredGuard,
    LeaseExtension,
    RecordChange,
    Renewal,
    StaleRevision,
    Stored,
    Write,
)
from gigafactory.domain.job.job import Event, Job
from gigafactory.store import rows
from gigafactory.store.group_commit import BatchResult

Row = tuple[object, ...]

WORD_MAX = 500
"""Search words are truncated to this many characters: PostgreSQL rejects words above 2 kB."""

SECTIONS = (
    *("job_checks", "record_checks", "expiries", "renewals", "takes", "frees"),
    *("created", "changed", "moved", "relisted", "counted", "specs"),
    *("ended", "granted", "kept", "prolonged", "deps_gone", "deps_new"),
    *("added", "replaced", "removed", "heard", "events"),
)
"""The parameters of `commit_batch`, in order; each is a list of rows, or NULL."""


class BatchOutput(NamedTuple):
    """The output row of `commit_batch`."""

    base: int
    refused: Sequence[int]
    numbers: Sequence[int] | None
    owners: Sequence[str | None] | None


class GroupRows:
    """The rows of one group of writes, under a unique group number."""

    def __init__(self, number: int, writes: tuple[Write, ...]) -> None:
        self.number = number
        self.rows: list[tuple[str, Row]] = []
        self.events: list[tuple[Event, Job | None]] = []
        self.refusal: StaleRevision | KeyTaken | None = None
        """The verdict on a group that contradicts itself, independent of the database."""
        self.deletions: list[tuple[int, JobDeletion]] = []
        """Job deletions, each with the number of its check; `commit_batch` does not handle them."""
        self._check_subjects: list[str] = []
        # `commit_batch` extends leases first: add the extension to expiries written before it.
        self._extension_ms = sum(
            _millis_of(write) for write in writes if isinstance(write, LeaseExtension)
        )
        for write in writes:
            self._add(write)
        self._add_keys([write for write in writes if isinstance(write, JobChange)])
        self.refusal = rows.find_duplicate(writes) or self.refusal

    def verdict_for_check(self, check: int, owner: str | None) -> StaleRevision | KeyTaken:
        """Return the verdict if this check is the first one that fails."""
        key = self._check_subjects[check]
        return StaleRevision(key) if owner is None else KeyTaken(key, owner)

    def entries(self, after: int) -> Iterator[FeedEntry]:
        """Return the feed entries of the group, numbered after a position."""
        for position, (event, job) in enumerate(self.events, after + 1):
            yield FeedEntry(msgspec.structs.replace(event, position=position), job)

    def _add_row(self, section: str, *row: object) -> None:
        self.rows.append((section, (self.number, *row)))

    def _add_check(self, section: str, subject: str, *row: object) -> None:
        self.rows.append((section, (self.number, len(self._check_subjects), *row)))
        self._check_subjects.append(subject)

    def _add(self, write: Write) -> None:
        match write:
            case JobChange():
                self._add_job_change(write)
            case RecordChange():
                self._add_record_change(write)
            case Renewal(job_id, epoch, expires_at):
                until = rows.to_millis(expires_at) + self._extension_ms
                self._add_check("renewals", job_id, job_id, epoch, until)
            case FactoriesSeen():
                for factory_id, at in write.at.items():
                    self._add_row("heard", factory_id, rows.to_millis(at))
            case LeaseExtension():
                self._add_row("prolonged", _millis_of(write))
                self._extension_ms -= _millis_of(write)
            case JobDeletion():
                self.deletions.append((len(self._check_subjects), write))
                self._check_subjects.append(rows.subject(write))

    def _add_job_change(self, change: JobChange) -> None:
        before, after = change.before, change.after
        rev, seq = (before.rev, before.seq) if before else (0, 0)
        self._add_check("job_checks", after.id, after.id, rev, seq)
        self._add_guards(change.guards)
        self._add_listing(before, after)
        if change.spec is not None:
            self._add_row("specs", *rows.spec_row(change.spec))
        self._add_leases(change)
        deps = rows.dep_changes(change)
        for dep_id in deps.removed:
            self._add_row("deps_gone", dep_id, after.id)
        for dep_id in deps.added:
            self._add_row("deps_new", dep_id, after.id)
        self._add_events(change.events, after)

    def _add_listing(self, before: Job | None, after: Job) -> None:
        if before is None:
            self._add_row("created", *_job_row(after))
            self._add_row("counted", after.product_id, after.stage.value, 1)
            return
        self._add_row("changed", after.id, after.rev, after.seq, rows.job_doc(after))
        engine = rows.engine_of(after)
        if rows.listing_changed(before, after):
            self._add_row("relisted", *_job_row(after))
        elif before.stage is not after.stage or rows.engine_of(before) != engine:
            self._add_row("moved", after.id, after.stage.value, engine)
        if (before.product_id, before.stage) != (after.product_id, after.stage):
            self._add_row("counted", before.product_id, before.stage.value, -1)
            self._add_row("counted", after.product_id, after.stage.value, 1)

    def _add_leases(self, change: JobChange) -> None:
        earlier_epochs = {lease.epoch for lease in rows.leases_of(change.before)}
        changes = rows.lease_changes(change)
        for epoch in changes.ended:
            self._add_row("ended", change.after.id, epoch)
        for lease in changes.written:
            until = lease.expires_at + self._extension_ms
            self._add_row(
                "kept" if lease.epoch in earlier_epochs else "granted", *lease[:-1], until
            )
        for lease in changes.revoked:
            self._add_row("kept", *lease[:-1], None)

    def _add_record_change(self, change: RecordChange) -> None:
        record = change.record
        kind, key = record.kind, record.key
        rev = change.before.rev if change.before else 0
        self._add_check("record_checks", rows.subject(change), kind, key, rev)
        self._add_guards(change.guards)
        if change.after is None:
            self._add_row("removed", kind, key)
        else:
            section = "replaced" if change.before else "added"
            self._add_row(section, *rows.record_row(change.after))
        self._add_events(change.events, None)

    def _add_guards(self, guards: tuple[Guard, ...]) -> None:
        for guard in guards:
            if isinstance(guard, LeaseExpiredGuard):
                lease = (guard.job_id, guard.epoch, rows.to_millis(guard.at))
                self._add_check("expiries", guard.job_id, *lease)
                continue
            subject = f"{guard.kind}/{guard.key}"
            if guard.kind == "job":
                self._add_check("job_checks", subject, guard.key, guard.rev, None)
            else:
                self._add_check("record_checks", subject, guard.kind, guard.key, guard.rev)

    def _add_keys(self, changes: Iterable[JobChange]) -> None:
        """Add the checks of keys last: a stale revision is reported before a taken key."""
        taken: dict[str, str] = {}
        for change in changes:
            job_id = change.after.id
            for key in change.free:
                self._add_row("frees", key, job_id)
            for key in change.take:
                if key in taken:
                    self.refusal = self.refusal or KeyTaken(key, taken[key])
                taken[key] = job_id
                self._add_check("takes", key, key, job_id)

    def _add_events(self, events: tuple[Event, ...], job: Job | None) -> None:
        for event in events:
            _, *row = rows.event_row(event, 0)
            self._add_row("events", *row)
            self.events.append((event, job))


def _millis_of(write: LeaseExtension) -> int:
    return write.by // rows.MILLISECOND


def _job_row(job: Job) -> rows.JobRow:
    row = rows.job_row(job)
    if len(row.words) <= WORD_MAX:
        return row
    return row._replace(words=" ".join(truncate_words(row.words.split())))


def truncate_words(words: Iterable[str]) -> list[str]:
    """Truncate words that are too long for PostgreSQL."""
    return [word[:WORD_MAX] for word in words]


def parameters(groups: Sequence[GroupRows]) -> list[list[Row] | None]:
    """Merge the rows of all groups into the parameters of one call."""
    merged: dict[str, list[Row]] = {}
    for group in groups:
        for section, row in group.rows:
            merged.setdefault(section, []).append(row)
    return [merged.get(section) for section in SECTIONS]


def batch_result(groups: Sequence[GroupRows], output: BatchOutput) -> BatchResult:
    """Return the verdict on each group, and the feed entries of the stored groups in order."""
    failed = dict(
        zip(
            output.refused,
            zip(output.numbers or (), output.owners or (), strict=True),
            strict=True,
        )
    )
    verdicts: list[CommitResult] = []
    entries: list[FeedEntry] = []
    for group in groups:
        if group.refusal is not None:
            verdicts.append(group.refusal)
        elif group.number in failed:
            verdicts.append(group.verdict_for_check(*failed[group.number]))
        else:
            entries += group.entries(output.base + len(entries))
            verdicts.append(Stored(entries[-1].event.position if group.events else 0))
    return BatchResult(verdicts, entries)
