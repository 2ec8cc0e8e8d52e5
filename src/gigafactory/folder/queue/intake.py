"""Intake: turns a markdown file in the inbox into a job, or moves it to `failed/`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from gigafactory.domain.errors import Cycle, Fault, Invalid, Refused
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.folder_rules import edit, rebuild
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import JobFile, Manifest
from gigafactory.domain.submission.draft import Draft, draft
from gigafactory.domain.submission.submission import find_cycle, idempotency_hold, submit, supersede
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.folder.queue.board import STEM_BYTES_MAX, readable_name
from gigafactory.folder.queue.profiles import FolderProfiles
from gigafactory.folder.queue.record import JobRecord, digest_of, file_of, stamp_of
from gigafactory.folder.queue.store import LockedQueue

SUBMITTER = "folder"
REBUILT_AS = {
    "review": Stage.REVIEW,
    "testing": Stage.TESTING,
    "shipped": Stage.SHIPPED,
    "failed": Stage.FAILED,
}
"""The stage that the column of a file implies if its record is lost."""

log = structlog.get_logger()


def take_in(locked: LockedQueue, rules: FolderProfiles) -> list[JobRecord]:
    """Take in every new file of the inbox, dependencies first, and return the new jobs.

    An edit before the first run replaces the job.
    """
    for record in list(locked.records.values()):
        _handle_edit(locked, record, rules)
    owned = _owned_files(locked)
    inbox = [path for path in locked.board.files("inbox") if path not in owned]
    taken = [_take_file(locked, path, rules) for path in _dependencies_first(inbox)]
    return [record for record in taken if record is not None]


def _handle_edit(locked: LockedQueue, record: JobRecord, rules: FolderProfiles) -> None:
    path = file_of(locked.board, record)
    try:
        if path is None or (stamp := stamp_of(path)) == record.stamp:
            return
        same = digest_of(path.read_bytes()) == record.digest
    except (FileNotFoundError, PermissionError):
        return
    if same:
        # It was copied, or checked out again.
        locked.remark(record, stamp, edited=False)
    elif record.job.stage not in {Stage.QUEUED, Stage.BLOCKED} or record.job.runs > 0:
        log.warning("edited too late; the original version runs", file=path.name)
        locked.remark(record, stamp, edited=True)
    elif _take_file(locked, path, rules, instead_of=record) is None:
        why = "its file was edited and is no longer a valid job"
        locked.commit(cancel(record.job, SUBMITTER, why, now=locked.now))


def rebuild_lost(locked: LockedQueue, rules: FolderProfiles) -> list[JobRecord]:
    """Rebuild the records of files on the board that have none.

    Jobs with an active run stay as they are.
    """
    owned = _owned_files(locked)
    for path in locked.board.files("building"):
        if path not in owned and not _is_claimed(locked, path.stem):
            # Nothing is known of its run: start again.
            locked.board.move(path, "inbox")
    lost = [
        (path, stage)
        for column, stage in REBUILT_AS.items()
        for path in locked.board.files(column)
        if path not in owned and not locked.board.errors(path.name).exists()
    ]
    taken = [_take_file(locked, path, rules, stage) for path, stage in lost]
    return [record for record in taken if record is not None]


def _owned_files(locked: LockedQueue) -> set[Path | None]:
    return {file_of(locked.board, record) for record in locked.records.values()}


def _is_claimed(locked: LockedQueue, key: str) -> bool:
    from gigafactory.folder.queue.claim import HeldClaim

    held = HeldClaim.take(locked.board, key)
    if held is None:
        return True
    held.release()
    return False


def _dependencies_first(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files in order, but each after those that it depends on."""
    manifests = {path: _read(path) for path in paths}
    by_name = {manifest.name or path.stem: path for path, manifest in manifests.items()}
    done: set[Path] = set()
    for path in paths:
        # Depth first; a file that is found again before it is done is part of a cycle.
        stack, seen = [path], {path}
        while stack:
            open_deps = (by_name[dep] for dep in manifests[stack[-1]].deps if dep in by_name)
            dep = next((each for each in open_deps if each not in done and each not in seen), None)
            if dep is not None:
                stack.append(dep)
                seen.add(dep)
            elif (here := stack.pop()) not in done:
                done.add(here)
                yield here


def _read(path: Path) -> Manifest:
    try:
        return parse_job_file(path.read_bytes(), stem=path.stem).manifest
    except Exception:  # noqa: BLE001
        # Whatever is wrong with it is reported when it is taken in.
        return Manifest()


def _take_file(
    locked: LockedQueue,
    path: Path,
    rules: FolderProfiles,
    stage: Stage = Stage.QUEUED,
    instead_of: JobRecord | None = None,
) -> JobRecord | None:
    """Return the job of one file; None if it is invalid, or exists already."""
    try:
        record = _Arrival(locked, path, rules, instead_of).job(stage)
    except FileNotFoundError:
        return None
    except Refused as refused:
        _refuse(locked, path, refused)
        return None
    except PermissionError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; fix its permissions")
        _refuse(locked, path, Invalid("the job file", [fault]))
        return None
    except OSError:
        # The folder itself: it concerns all files.
        raise
    except Exception as error:
        # One file never stops the others.
        log.exception("job file failed", file=path.name)
        fault = Fault("", f"an unexpected error occurred: {type(error).__name__}: {error}")
        _refuse(locked, path, Invalid("the job file", [fault]))
        return None
    if locked.board.find(path.name, "failed") is None:
        # From an earlier attempt.
        locked.board.errors(path.name).unlink(missing_ok=True)
    return record


def _refuse(locked: LockedQueue, path: Path, refused: Refused) -> None:
    moved = locked.board.refuse(path, refused)
    log.warning("not a job", file=moved.name, reason=refused.detail)


class _Arrival:
    """One file during intake; `instead_of` is its job before it was edited."""

    def __init__(
        self, locked: LockedQueue, path: Path, rules: FolderProfiles, instead_of: JobRecord | None
    ) -> None:
        self._locked = locked
        self._path = path
        self._rules = rules
        self._before = instead_of
        if path.name != readable_name(path):
            fault = Fault("", "its name is not in UTF-8; rename it")
            raise Invalid("the job file", [fault])
        if len(path.stem.encode()) > STEM_BYTES_MAX:
            fault = Fault("", f"its name has more than {STEM_BYTES_MAX} bytes; rename it")
            raise Invalid("the job file", [fault])

    def job(self, stage: Stage) -> JobRecord | None:
        """Store the job; return None if it exists already under its idempotency key.

        Raises Refused.
        """
        locked, stem = self._locked, self._path.stem
        key = self._before.key if self._before else locked.board.free_stem(stem, own=self._path)
        stamp, data = stamp_of(self._path), self._path.read_bytes()
        file = parse_job_file(data, stem=stem)
        if file.manifest.idempotency_key is None and key != stem:
            file = parse_job_file(data, stem=key)
        made = self._draft(file)
        old = self._find_duplicate(made.job)
        if old is not None and old.content_hash == made.job.content_hash:
            self._path.unlink()
            log.info("already taken in", file=self._path.name, job=old.name)
            return None
        change = self._submit(made)
        if old is not None:
            self._supersede(old, change.after)
        if stage is not Stage.QUEUED:
            change = rebuild(change, stage, now=locked.now)
        if self._before is not None:
            change = edit(self._before.job, change, now=locked.now)
        elif self._path.stem != key:
            self._path = self._path.rename(self._path.with_stem(key))
        record = JobRecord(
            key=key,
            file=self._path.name,
            was=self._path.parent.name,
            stamp=stamp,
            digest=digest_of(data),
            job=change.after,
            manifest=made.spec.manifest,
            body=made.spec.body,
            events_bytes=self._before.events_bytes if self._before else 0,
        )
        return locked.commit(change, new=record)

    def _draft(self, file: JobFile) -> Draft:
        manifest = file.manifest
        if manifest.kind == "composite":
            fault = Fault(
                "kind", "a folder does not support composites; use `aq submit` with a fleet"
            )
            raise Invalid("the manifest", [fault])
        product = manifest.product or DEFAULT_PRODUCT
        made = draft(
            file,
            self._rules.profile(manifest.profile),
            job_id=self._before.job.id if self._before else self._locked.ids.new(self._locked.now),
            product=product,
            by=SUBMITTER,
            now=self._locked.now,
        )
        if manifest.parent is None:
            return made
        parent = self._find(product, manifest.parent)
        if parent is None:
            fault = Fault("parent", f"there is no job {manifest.parent!r} in this folder")
            raise Invalid("the manifest", [fault])
        return replace(made, job=replace(made.job, parent_id=parent.id))

    def _find_duplicate(self, job: Job) -> Job | None:
        if job.idempotency_key is None:
            return None
        holder = self._locked.holder(idempotency_hold(job.product_id, job.idempotency_key))
        return None if holder is None or holder.id == job.id else holder

    def _submit(self, made: Draft) -> JobChange:
        product = made.job.product_id
        dep_jobs = {want: self._find(product, want) for want in made.deps}
        deps = list({job.id: job for job in dep_jobs.values() if job is not None}.values())
        missing = tuple(want for want, job in dep_jobs.items() if job is None)
        job = replace(made.job, deps=tuple(dep.id for dep in deps))
        self._refuse_cycle(job, missing)
        return submit(job, made.spec, deps, actor=SUBMITTER, now=self._locked.now, missing=missing)

    def _refuse_cycle(self, new: Job, missing: Sequence[str]) -> None:
        jobs = {k.job.id: k.job for k in self._locked.records.values() if not k.job.finished}
        edges = {
            job.name: [jobs[dep].name if dep in jobs else dep for dep in job.deps]
            for job in jobs.values()
            if job.product_id == new.product_id
        }
        edges[new.name] = [*(jobs[dep].name for dep in new.deps if dep in jobs), *missing]
        circle = find_cycle(edges)
        if circle is not None and new.name in circle:
            raise Cycle(circle)

    def _find(self, product: str, name: str) -> Job | None:
        return find_job(self._locked, product, name)

    def _supersede(self, old: Job, new: Job) -> None:
        dependents = [k.job for k in self._locked.records.values() if old.id in k.job.deps]
        waiting = [job for job in dependents if job.stage is Stage.BLOCKED]
        for change in supersede(old, new, waiting, by=SUBMITTER, now=self._locked.now):
            self._locked.commit(change)


def find_job(locked: LockedQueue, product: str, name: str) -> Job | None:
    """Return the job that a dependency names: by id, unfinished by name, or the newest ended."""
    named = [
        k.job
        for k in locked.records.values()
        if k.job.product_id == product and name in {k.job.id, k.job.name}
    ]
    return max(named, key=lambda job: (not job.finished, job.id), default=None)
