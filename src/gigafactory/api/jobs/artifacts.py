"""Artifact endpoints: upload with hash check, download, diff, links."""

from datetime import timedelta
from urllib.parse import quote

from litestar import delete, get, post
from litestar.types import ASGIApp

from gigafactory.api.http.download import Download, etag, parse_range
from gigafactory.api.http.examples import ARTIFACT, JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import JSON, NO_CONTENT, HttpResponse, json_response
from gigafactory.api.render.jobs import render_artifact
from gigafactory.domain.job.artifact import DEFAULT_MEDIA_TYPE, Artifact, ArtifactUpload
from gigafactory.domain.job.diff import WorkDiff
from gigafactory.wire.fields import timestamp
from gigafactory.wire.files import (
    ArtifactQuery,
    ArtifactsView,
    ArtifactUploadQuery,
    ArtifactView,
    LinkDoc,
    LinkView,
)

TAG = "Artifacts"


@post(
    "/jobs/{job_id:str}/artifacts",
    opt=operation(
        TAG,
        body=Body(media_type=DEFAULT_MEDIA_TYPE, example="<h1>92 % covered</h1>\n"),
        query=ArtifactUploadQuery,
        responses={201: Body(of=ArtifactView, example=ARTIFACT, description="stored")},
        errors=(404, 409),
    ),
)
async def add_artifact(request: ApiRequest) -> ASGIApp:
    """Add a file to a job: a worker under its lease, or an operator.

    The body is the raw file; the settings limit its size. A file that does not match `sha256` is
    refused and not stored. Sending the same file of the same run again returns the same artifact.
    """
    caller = await request.caller()
    query = request.query(ArtifactUploadQuery)
    upload = ArtifactUpload(
        name=query.name,
        sha256=query.sha256,
        media_type=query.media_type,
        size=request.content_length if query.size is None else query.size,
        purpose=query.purpose,
    )
    added = await request.coordinator.artifacts.add(
        caller,
        request.path_name("job_id", "job"),
        upload,
        request.body_chunks(),
        epoch=query.lease_epoch,
    )
    return json_response(render_artifact(added), 201)


@get(
    "/jobs/{job_id:str}/artifacts",
    opt=operation(
        TAG,
        responses={200: Body(of=ArtifactsView, example={"artifacts": [ARTIFACT]})},
        errors=(404,),
    ),
)
async def list_artifacts(request: ApiRequest) -> ASGIApp:
    """List the files of all runs of a job, oldest first."""
    caller = await request.caller()
    artifacts = await request.coordinator.artifacts.list(caller, request.path_name("job_id", "job"))
    return json_response(
        ArtifactsView(artifacts=tuple(render_artifact(each) for each in artifacts))
    )


DIFF = {
    "base": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    "commit": "c0ffee11d4e5f60718293a4b5c6d7e8f90123456",
    "files": [
        {
            "path": "login.py",
            "change": "modified",
            "added": 1,
            "deleted": 1,
            "binary": False,
            "oldPath": None,
        }
    ],
    "filesChanged": 1,
    "linesAdded": 1,
    "linesDeleted": 1,
    "truncated": False,
    "text": "diff --git a/login.py b/login.py\n--- a/login.py\n+++ b/login.py\n"
    "@@ -1 +1 @@\n-retries = 0\n+retries = 3\n",
}
TEXT = "text/x-diff"


@get(
    "/jobs/{job_id:str}/diff",
    opt=operation(
        TAG,
        responses={
            200: Body(of=WorkDiff, example=DIFF, other_media_types=(f"{TEXT}; charset=utf-8",))
        },
        errors=(404,),
    ),
)
async def read_diff(request: ApiRequest) -> ASGIApp:
    """Return the diff of a job's newest run, as JSON if `Accept` asks for it, else as text.

    The factory uploads the diff with its result; secrets are redacted. A very long diff is cut and
    ends with a line that says so; `filesChanged`, `linesAdded` and `linesDeleted` count all
    changes. Pass `commit` in a review decision.
    """
    caller = await request.caller()
    diff = await request.coordinator.diffs.get(caller, request.path_name("job_id", "job"))
    if JSON in (request.header(b"accept") or b""):
        return json_response(diff)
    headers = (
        (b"etag", f'"{quote(diff.commit)}"'.encode()),
        (b"x-content-type-options", b"nosniff"),
    )
    media_type = f"{TEXT}; charset=utf-8".encode()
    return HttpResponse(200, diff.text.encode(), media_type=media_type, headers=headers)


WHOLE = Body(
    media_type=DEFAULT_MEDIA_TYPE,
    description="the file, in its own media type",
    other_media_types=("*/*",),
)
PART = Body(
    media_type=DEFAULT_MEDIA_TYPE,
    description="the requested byte range",
    other_media_types=("*/*",),
)


@get(
    "/artifacts/{artifact_id:str}",
    opt=operation(
        TAG,
        query=ArtifactQuery,
        responses={200: WHOLE, 206: PART},
        errors=(404, 416),
        headers=("Range", "If-Range"),
    ),
)
async def read_artifact(request: ApiRequest) -> ASGIApp:
    """Download a file: all of it, or a single `Range` of bytes.

    Sent as an attachment that a browser does not run on this origin. `ETag` and `Repr-Digest` are
    its SHA-256, to verify a complete download. Needs a token, or the secret of a link.
    """
    return await download(request, await _find_artifact(request))


async def download(request: ApiRequest, artifact: Artifact) -> Download:
    """Return a file, or the requested range of it, as an attachment.

    Raises NotFound when its content is gone, RangeNotSatisfiable.
    """
    condition = request.header(b"if-range")
    header = request.header(b"range") if condition in (None, etag(artifact)) else None
    part = parse_range(header, artifact.size)
    start, _ = part or (0, artifact.size)
    pieces = request.coordinator.artifacts.read(artifact, start=start)
    # Read the first piece before the response starts, so that missing content is still a 404.
    first = await anext(pieces, b"")
    return Download(artifact, first, pieces, part)


async def _find_artifact(request: ApiRequest) -> Artifact:
    artifact_id = request.path_name("artifact_id", "artifact")
    secret = request.query(ArtifactQuery).link
    if secret is None:
        return await request.coordinator.artifacts.get(await request.caller(), artifact_id)
    with request.authn.counting_failures(request.address):
        return await request.coordinator.artifact_links.open(artifact_id, secret)


@delete(
    "/artifacts/{artifact_id:str}",
    status_code=200,
    opt=operation(TAG, responses={204: None}, errors=(404, 409)),
)
async def delete_artifact(request: ApiRequest) -> ASGIApp:
    """Delete a file of a job; its events remain."""
    caller = await request.caller()
    await request.coordinator.artifacts.delete(caller, request.path_name("artifact_id", "artifact"))
    return NO_CONTENT


@post(
    "/artifacts/{artifact_id:str}/links",
    opt=operation(
        TAG,
        body=Body(of=LinkDoc, example={"expiresIn": 900}),
        responses={
            201: Body(
                of=LinkView,
                example={
                    "path": f"/api/fleet/artifacts/{JOB_ID}.{JOB_ID}?link=…",
                    "expiresAt": NOON,
                },
            )
        },
        errors=(404, 409),
        optional_body=True,
    ),
)
async def link_artifact(request: ApiRequest) -> ASGIApp:
    """Create a link that reads one file without a token, by default for 15 minutes.

    `expiresIn` sets its lifetime, at most a day. It also ends with the token of its creator.
    """
    caller = await request.caller("read")
    doc = await request.json_body(LinkDoc)
    created = await request.coordinator.artifact_links.create(
        caller,
        request.path_name("artifact_id", "artifact"),
        timedelta(seconds=int(doc.expires_in)),
    )
    path = request.scope["path"].removesuffix("/links")
    link = LinkView(path=f"{path}?link={created.secret}", expires_at=timestamp(created.expires_at))
    return json_response(link, 201)


ROUTES = (add_artifact, list_artifacts, read_diff, read_artifact, delete_artifact, link_artifact)
