"""The archive file of a job: all its data as compressed JSON lines."""

import asyncio
import base64
import codecs
import hashlib
import zlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import msgspec

from gigafactory.coordinator.core.ports import Blobs, Store
from gigafactory.coordinator.files.logs import Logs
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.artifact import Artifact
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.run import Run

VERSION = 1
GZIP = 31
"""zlib's `wbits` for the gzip format."""


class ArchiveInfo(msgspec.Struct, frozen=True):
    """Size and hash of a written archive file."""

    size: int
    sha256: str


class JobRecords(msgspec.Struct, frozen=True):
    """A job and its records."""

    job: Job
    runs: Sequence[Run]
    artifacts: Sequence[Artifact]
    ceiling: Ceiling | None = None


class ArchiveFile:
    """Writes archive files; each line is an object whose only key names its type."""

    def __init__(self, store: Store, logs: Logs, blobs: Blobs) -> None:
        self._store = store
        self._logs = logs
        self._blobs = blobs

    async def write(self, key: str, records: JobRecords, *, now: datetime) -> ArchiveInfo:
        """Stream all data of a job to a new blob."""
        digest, size = hashlib.sha256(), 0

        async def counted_pieces() -> AsyncIterator[bytes]:
            nonlocal size
            async for piece in _compressed(self._lines(records, now)):
                digest.update(piece)
                size += len(piece)
                yield piece

        await self._blobs.put_stream(key, counted_pieces())
        return ArchiveInfo(size, digest.hexdigest())

    async def _lines(self, records: JobRecords, now: datetime) -> AsyncIterator[bytes]:
        job = records.job
        yield _line("archive", {"version": VERSION, "jobId": job.id, "archivedAt": now})
        yield _line("job", job)
        for spec in (await self._store.specs([job.id])).values():
            yield _line("spec", {"manifest": spec.manifest, "body": spec.body})
        seq = 0
        while page := await self._store.events(job.id, after=seq):
            for event in page:
                yield _line("event", event)
            seq = page[-1].seq
        for run in records.runs:
            yield _line("run", run)
        for run in records.runs:
            async for line in self._log(run):
                yield line
        for artifact in records.artifacts:
            async for line in self._artifact(artifact):
                yield line

    async def _log(self, run: Run) -> AsyncIterator[bytes]:
        # A piece may end inside a multi-byte character.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async for piece in self._logs.read(run.id):
            yield _line("log", {"runId": run.id, "text": decoder.decode(piece)})
        if rest := decoder.decode(b"", final=True):
            yield _line("log", {"runId": run.id, "text": rest})

    async def _artifact(self, artifact: Artifact) -> AsyncIterator[bytes]:
        yield _line("artifact", artifact)
        try:
            async for piece in self._blobs.read(artifact.blob):
                data = base64.b64encode(piece).decode()
                yield _line("bytes", {"artifactId": artifact.id, "base64": data})
        except NotFound:
            # A lost blob must not prevent archiving the rest.
            yield _line("missing", {"artifactId": artifact.id})


def _line(kind: str, value: object) -> bytes:
    return msgspec.json.encode({kind: value}) + b"\n"


async def _compressed(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(wbits=GZIP)
    async for line in lines:
        if packed := await asyncio.to_thread(packer.compress, line):
            yield packed
    yield packer.flush()
