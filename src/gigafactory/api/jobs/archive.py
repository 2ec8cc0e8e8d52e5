"""Archive endpoints: old finished jobs, each as one compressed file."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.cursor import decode_cursor, encode_cursor
from gigafactory.api.http.download import Download, etag, parse_range
from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.coordinator.core.audit import visible_products
from gigafactory.domain.job.artifact import Artifact
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.wire.fields import timestamp
from gigafactory.wire.files import ArchivedView, ArchiveQuery, ArchiveView

TAG = "Archive"
GZIP = "application/gzip"


def _view(of: ArchivedJob) -> ArchivedView:
    return ArchivedView(
        job_id=of.job_id,
        product_id=of.product_id,
        name=of.name,
        title=of.title,
        stage=of.stage.value,
        created_at=timestamp(of.created_at),
        finished_at=timestamp(of.finished_at),
        archived_at=timestamp(of.archived_at),
        size=of.size,
        sha256=of.sha256,
    )


EXAMPLE = {
    "jobId": JOB_ID,
    "productId": "notes",
    "name": "fix-login",
    "title": "Fix the login",
    "stage": "shipped",
    "createdAt": NOON,
    "finishedAt": NOON,
    "archivedAt": NOON,
    "size": 4096,
    "sha256": "7dd0838d1ed4aed4d5616f315f1cc12380c4ed6424291077fe54c19a9276f2c7",
}


@get(
    "/archive",
    opt=operation(
        TAG,
        query=ArchiveQuery,
        responses={200: Body(of=ArchiveView, example={"jobs": [EXAMPLE], "nextCursor": None})},
    ),
)
async def list_archive(request: ApiRequest) -> ASGIApp:
    """List archived jobs, oldest first."""
    caller = await request.caller()
    page = request.query(ArchiveQuery)
    query = ("archive", visible_products(caller), page.limit)
    last = decode_cursor(page.cursor, query) or ""
    jobs = await request.coordinator.archives.page(caller, after=last, limit=page.limit)
    next_cursor = encode_cursor(jobs[-1].key, query) if len(jobs) == page.limit else None
    return json_response(
        ArchiveView(jobs=tuple(_view(each) for each in jobs), next_cursor=next_cursor)
    )


@get(
    "/archive/{job_id:str}",
    opt=operation(
        TAG,
        responses={
            200: Body(media_type=GZIP, description="JSON lines, compressed"),
            206: Body(media_type=GZIP, description="the requested byte range"),
        },
        errors=(404, 416),
        headers=("Range", "If-Range"),
    ),
)
async def read_archived(request: ApiRequest) -> ASGIApp:
    """Download an archived job as JSON lines, compressed with gzip.

    Each line is an object with one key, its kind: `archive`, `job`, `spec`, `event`, `run`, `log`,
    `artifact`, or `bytes` (content of the artifact before it, in base64).
    """
    caller = await request.caller()
    archived = await request.coordinator.archives.get(caller, request.path_name("job_id", "job"))
    file = _file(archived)
    condition = request.header(b"if-range")
    header = request.header(b"range") if condition in (None, etag(file)) else None
    part = parse_range(header, archived.size)
    pieces = request.coordinator.archives.read(archived, start=(part or (0, 0))[0])
    first = await anext(pieces, b"")
    return Download(file, first, pieces, part)


def _file(of: ArchivedJob) -> Artifact:
    return Artifact(
        id=of.job_id,
        job_id=of.job_id,
        product_id=of.product_id,
        name=f"{of.name}.jsonl.gz",
        media_type=GZIP,
        size=of.size,
        sha256=of.sha256,
        created_at=of.archived_at,
        created_by="system:archiver",
    )


ROUTES = (list_archive, read_archived)
