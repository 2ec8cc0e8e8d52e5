"""Artifacts of a job: upload, download, show as text, share and delete."""

from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.jobs.artifacts import download
from gigafactory.api.render.jobs import render_artifact
from gigafactory.client.transport.headers import ROOT
from gigafactory.client.transport.upload import media_type_of
from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.job.artifact import (
    LINK_TTL,
    NAME_CHARS_MAX,
    Artifact,
    ArtifactUpload,
    artifact_name,
    require_size,
)
from gigafactory.domain.tenancy.access import OWN_PRODUCTS
from gigafactory.web.site.rendering import render_page, see_other
from gigafactory.web.site.session import (
    WebForm,
    read_form,
    require_session,
    require_upload_session,
)
from gigafactory.web.site.upload import buffer_upload

SHOWN_BYTES_MAX = 256 << 10
"""Size limit of files shown as text."""
TEXT_TYPES = frozenset({"application/json", "application/yaml", "application/xml"})


def is_readable(artifact: Artifact) -> bool:
    """Return whether a page can show the artifact as text."""
    kind = artifact.media_type.partition(";")[0]
    return artifact.size <= SHOWN_BYTES_MAX and (kind.startswith("text/") or kind in TEXT_TYPES)


@get("/artifacts/{artifact_id:str}")
async def save_artifact(request: ApiRequest) -> ASGIApp:
    """Download an artifact."""
    session = await require_session(request)
    artifact_id = request.path_name("artifact_id", "artifact")
    return await download(
        request, await request.coordinator.artifacts.get(session.caller, artifact_id)
    )


@get("/artifacts/{artifact_id:str}/text")
async def artifact_page(request: ApiRequest) -> ASGIApp:
    """Show a small artifact as plain text, whatever its media type, so that no content runs."""
    session = await require_session(request)
    coordinator = request.coordinator
    artifact_id = request.path_name("artifact_id", "artifact")
    artifact = await coordinator.artifacts.get(session.caller, artifact_id)
    if not is_readable(artifact):
        raise NotFound("text of artifact", artifact_id, "download it instead")
    data = b"".join([piece async for piece in coordinator.artifacts.read(artifact)])
    job = await coordinator.jobs.get(session.caller, artifact.job_id)
    text = data.decode("utf-8", "replace")
    return render_page(request, session, "artifact.html", artifact=artifact, job=job, text=text)


class ArtifactNameQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of an uploaded file."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]


@post("/jobs/{job_id:str}/artifacts")
async def add_artifact(request: ApiRequest) -> ASGIApp:
    """Add a file to a job; the page's script sends it as the raw request body."""
    session = await require_upload_session(request)
    caller, artifacts = session.caller, request.coordinator.artifacts
    caller.require("artifacts", OWN_PRODUCTS)
    job = await request.coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    name = request.query(ArtifactNameQuery).name
    try:
        artifact_name(name)
    except ValueError as expected:
        fault = Fault("name", f"found {name[:100]!r}; expected {expected}")
        raise Invalid("the artifact", [fault]) from None
    # Refuse an announced size that is too large before reading the body.
    require_size(request.content_length or 0, bytes_max=artifacts.bytes_max)
    async with buffer_upload(request.body_chunks(), bytes_max=artifacts.bytes_max) as file:
        upload = ArtifactUpload(
            name=name, sha256=file.sha256, media_type=media_type_of(name), size=file.size
        )
        added = await artifacts.add(caller, job.id, upload, file.pieces(), epoch=None)
    return json_response(render_artifact(added), 201)


@post("/artifacts/{artifact_id:str}/share")
async def share_artifact(request: ApiRequest) -> ASGIApp:
    """Create a temporary public link to an artifact and show it."""
    session, _ = await read_form(request, WebForm)
    link = await request.coordinator.artifact_links.create(
        session.caller, request.path_name("artifact_id", "artifact"), LINK_TTL
    )
    path = f"{ROOT}/artifacts/{link.artifact.id}?link={link.secret}"
    return render_page(
        request,
        session,
        "shared.html",
        artifact=link.artifact,
        url=request.api_url + path,
        valid_for=LINK_TTL,
    )


@post("/artifacts/{artifact_id:str}/delete")
async def delete_artifact(request: ApiRequest) -> ASGIApp:
    """Delete an artifact; the job's events still mention it."""
    session, _ = await read_form(request, WebForm)
    artifact_id = request.path_name("artifact_id", "artifact")
    deleted = await request.coordinator.artifacts.delete(session.caller, artifact_id)
    return see_other(f"/jobs/{deleted.job_id}")


ROUTES = (save_artifact, artifact_page, add_artifact, share_artifact, delete_artifact)
