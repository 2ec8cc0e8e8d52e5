"""Artifacts: files that runs and people attach to a job, verified by size and hash."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Ids, Store
from gigafactory.coordinator.files.orphan_blobs import OrphanBlobs
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import Conflict, Fault, Invalid, NotFound
from gigafactory.domain.job.artifact import (
    ARTIFACTS_MAX,
    Artifact,
    ArtifactUpload,
    OrphanBlob,
    Purpose,
    add_artifact,
    artifact_id,
    blob_key,
    delete_artifact,
    new_artifact,
    require_artifact_quota,
    require_size,
)
from gigafactory.domain.job.change import RecordChange, Write
from gigafactory.domain.job.diff import read_diff
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller

UPLOAD_LASTS_MAX_S = 30 * 60.0
"""Time limit of an upload; shorter than the lifetime of the blob's reservation."""


class UploadTarget(msgspec.Struct, frozen=True):
    """The job that an artifact belongs to, and the lease if a worker uploads it."""

    job: Job
    lease: Lease | None

    @property
    def run_id(self) -> str | None:
        """The run that uploads the artifact; None for a person."""
        return self.lease.run_id if self.lease else None


class ArtifactService:
    """Stores and reads artifacts: the blob first, then the record and its event."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        ids: Ids,
        jobs: JobQueries,
        workers: WorkerWrites,
        orphans: OrphanBlobs,
        *,
        bytes_max: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._jobs = jobs
        self._workers = workers
        self._orphans = orphans
        self.bytes_max = bytes_max
        """Size limit of one artifact."""

    async def add(
        self,
        caller: Caller,
        reference: str,
        offered: ArtifactUpload,
        pieces: AsyncIterator[bytes],
        *,
        epoch: int | None,
    ) -> Artifact:
        """Store a file of a job: a worker's under its lease, or without an epoch a person's.

        A repeated upload by the same run is stored once. Raises Fenced, Forbidden, NotFound,
        Invalid if the bytes do not match their declared size or hash, TooLarge, Conflict; nothing
        is stored then.
        """
        offered.check(bytes_max=self.bytes_max)
        if epoch is None and offered.purpose is Purpose.DIFF:
            raise Invalid("the diff", [Fault("leaseEpoch", "is missing; only runs upload diffs")])
        if epoch is None:
            if caller.factory_id is not None:
                raise Invalid("the artifact", [Fault("leaseEpoch", "is missing")])
            caller.require("artifacts", OWN_PRODUCTS)
            return await self._add(caller, reference, offered, pieces, None)
        async with self._workers.fenced(caller, reference, epoch):
            return await self._add(caller, reference, offered, pieces, epoch)

    async def _add(
        self,
        caller: Caller,
        reference: str,
        offered: ArtifactUpload,
        pieces: AsyncIterator[bytes],
        epoch: int | None,
    ) -> Artifact:
        target = await self._target(caller, reference, epoch)
        existing = await self._find_same(target, offered)
        if existing is not None:
            return existing
        unique = self._ids.new(self._clock.now())
        key = blob_key(target.job.id, artifact_id(target.job.id, unique))
        async with self._orphans.reserve(key) as note:
            size = await self._store_bytes(key, offered, pieces)

            async def decide() -> Plan[Artifact]:
                return await self._plan(caller, reference, offered, size, unique, note, epoch)

            return await self._committer.execute(
                caller,
                "add-artifact",
                decide,
                Artifact,
                request=(reference, offered, epoch),
                epoch=epoch,
            )

    async def _target(self, caller: Caller, reference: str, epoch: int | None) -> UploadTarget:
        if epoch is None:
            return UploadTarget(await self._jobs.lookup(caller, reference), None)
        job = await self._workers.require_job(caller, reference)
        return UploadTarget(job, require_lease(job, caller.factory_id or "", epoch))

    async def _find_same(self, target: UploadTarget, offered: ArtifactUpload) -> Artifact | None:
        """Return the artifact if it was uploaded before, else None.

        Raises TooLarge if a new one exceeds the maximum per job.
        """
        present = await self.list_all(target.job)
        equal_artifacts = (each for each in present if each.matches(offered, target.run_id))
        same = next(equal_artifacts, None)
        if same is None:
            replaced = [each for each in present if each.is_replaced_by(offered, target.run_id)]
            require_artifact_quota(len(present) - len(replaced))
        return same

    async def _store_bytes(
        self, key: str, offered: ArtifactUpload, pieces: AsyncIterator[bytes]
    ) -> int:
        checked = CheckedStream(offered, pieces, offered.size_limit(self.bytes_max))
        passing = checked.pieces()
        if offered.purpose is Purpose.DIFF:
            passing = _require_diff(passing)
        try:
            async with asyncio.timeout(UPLOAD_LASTS_MAX_S):
                await self._orphans.blobs.put_stream(key, passing)
        except TimeoutError:
            raise Conflict(
                f"the upload took longer than {UPLOAD_LASTS_MAX_S:g} s; send it again"
            ) from None
        return checked.size

    async def _plan(
        self,
        caller: Caller,
        reference: str,
        offered: ArtifactUpload,
        size: int,
        unique: str,
        note: OrphanBlob,
        epoch: int | None,
    ) -> Plan[Artifact]:
        target = await self._target(caller, reference, epoch)
        existing = await self._find_same(target, offered)
        if existing is not None:
            return Plan(existing)
        if not await self._orphans.is_orphan(note):
            raise Conflict("the upload took too long and its bytes were removed; send it again")
        now = self._clock.now()
        artifact = new_artifact(
            target.job,
            offered,
            size,
            unique=unique,
            lease=target.lease,
            actor=caller.actor,
            now=now,
        )
        return Plan(
            artifact,
            (
                add_artifact(target.job, artifact, now=now),
                RecordChange(before=None, after=artifact),
                RecordChange(before=note, after=None),
                *await self._remove_superseded(target, offered),
            ),
        )

    async def _remove_superseded(
        self, target: UploadTarget, offered: ArtifactUpload
    ) -> list[Write]:
        """Return the writes that remove superseded artifacts; the janitor removes their bytes."""
        now = self._clock.now()
        writes: list[Write] = []
        for each in await self.list_all(target.job):
            if each.is_replaced_by(offered, target.run_id):
                writes += [
                    RecordChange(before=each, after=None),
                    self._orphans.orphan(each.blob, now),
                ]
        return writes

    async def list_all(self, job: Job) -> Sequence[Artifact]:
        """Return all artifacts of a job, oldest first."""
        return await self._store.records(Artifact, prefix=f"{job.id}.", limit=ARTIFACTS_MAX)

    async def list_files(self, job: Job) -> Sequence[Artifact]:
        """Return the files of a job, oldest first, without the diffs of its runs."""
        return [each for each in await self.list_all(job) if each.purpose is Purpose.FILE]

    async def list(self, caller: Caller, reference: str) -> Sequence[Artifact]:
        """Return the files of a job that the caller may see.

        Raises NotFound.
        """
        return await self.list_files(await self._jobs.lookup(caller, reference))

    async def get(self, caller: Caller, wanted: str) -> Artifact:
        """Return an artifact by id.

        Raises NotFound.
        """
        artifact = await self._store.record(Artifact, wanted)
        if artifact is None or not caller.can_see(artifact.product_id):
            raise no_artifact(wanted)
        job = await self._store.job(artifact.job_id) if caller.factory_id is not None else None
        if job is not None and not await self._jobs.has_worked_on(caller, job):
            raise no_artifact(wanted)
        return artifact

    def read(self, artifact: Artifact, *, start: int = 0) -> AsyncIterator[bytes]:
        """Read an artifact from an offset, in pieces.

        Raises NotFound if the bytes are gone.
        """
        return self._orphans.blobs.read(artifact.blob, start=start)

    async def delete(self, caller: Caller, wanted: str) -> Artifact:
        """Delete an artifact and its bytes; the job's events still mention it.

        Raises Forbidden, NotFound.
        """
        caller.require("artifacts", OWN_PRODUCTS)

        async def decide() -> Plan[Artifact]:
            artifact = await self.get(caller, wanted)
            job = await self._store.job(artifact.job_id)
            assert job is not None, "an artifact belongs to a job"
            now = self._clock.now()
            return Plan(
                artifact,
                (
                    delete_artifact(job, artifact, actor=caller.actor, now=now),
                    RecordChange(before=artifact, after=None),
                    self._orphans.orphan(artifact.blob, now),
                ),
            )

        deleted = await self._committer.execute(
            caller, "delete-artifact", decide, Artifact, request=wanted
        )
        await self._orphans.drop(deleted.blob)
        return deleted


class CheckedStream:
    """A stream of bytes that is checked against its declared size and hash."""

    def __init__(
        self, offered: ArtifactUpload, pieces: AsyncIterator[bytes], bytes_max: int
    ) -> None:
        self._offered = offered
        self._pieces = pieces
        self._bytes_max = bytes_max
        self._digest = hashlib.sha256()
        self.size = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield each piece as it arrives.

        Raises TooLarge, Invalid.
        """
        async for piece in self._pieces:
            self.size += len(piece)
            require_size(self.size, bytes_max=self._bytes_max)
            self._digest.update(piece)
            yield piece
        self._offered.check_content(size=self.size, digest=self._digest.hexdigest())


async def _require_diff(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes at once if they are a valid diff; raises Invalid otherwise."""
    data = b"".join([piece async for piece in pieces])
    read_diff(data)
    yield data


def no_artifact(wanted: str) -> NotFound:
    """Return the refusal for an artifact that is missing or not visible to the caller."""
    return NotFound("artifact", wanted, "list a job's artifacts with `aq artifacts JOB`")
