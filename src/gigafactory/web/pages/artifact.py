"""The files of a job: added, saved, read as text, shared, removed; never run in our origin."""

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
from gigafactory.web.site.rendering import page, see_other
from gigafactory.web.site.session import Sent, address_of, sending, sent, visit
from gigafactory.web.site.upload import kept

SHOWN_BYTES_MAX = 256 << 10
"""Larger files are read better elsewhere."""
TEXTS = frozenset({"application/json", "application/yaml", "application/xml"})


def readable(artifact: Artifact) -> bool:
    """Whether a page can show it as text."""
    kind = artifact.media_type.partition(";")[0]
    return artifact.size <= SHOWN_BYTES_MAX and (kind.startswith("text/") or kind in TEXTS)


@get("/artifacts/{artifact_id:str}")
async def save_artifact(request: ApiRequest) -> ASGIApp:
    """Send a file for the browser to save."""
    visitor = await visit(request)
    wanted = request.path_name("artifact_id", "artifact")
    return await download(request, await request.coordinator.artifacts.get(visitor.caller, wanted))


@get("/artifacts/{artifact_id:str}/text")
async def artifact_page(request: ApiRequest) -> ASGIApp:
    """Show a small file as the text that it is, whatever it says of itself."""
    visitor = await visit(request)
    coordinator = request.coordinator
    wanted = request.path_name("artifact_id", "artifact")
    found = await coordinator.artifacts.get(visitor.caller, wanted)
    if not readable(found):
        raise NotFound("text of artifact", wanted, "download it instead")
    data = b"".join([piece async for piece in coordinator.artifacts.read(found)])
    job = await coordinator.jobs.get(visitor.caller, found.job_id)
    text = data.decode("utf-8", "replace")
    return page(request, visitor, "artifact.html", artifact=found, job=job, text=text)


class Named(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file is called."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]


@post("/jobs/{job_id:str}/artifacts")
async def add_artifact(request: ApiRequest) -> ASGIApp:
    """Add a file to a job; the script of the page sends it as it is."""
    visitor = await sending(request)
    caller, artifacts = visitor.caller, request.coordinator.artifacts
    caller.require("artifacts")
    job = await request.coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    name = request.query(Named).name
    try:
        artifact_name(name)
    except ValueError as expected:
        fault = Fault("name", f"found {name[:100]!r}; expected {expected}")
        raise Invalid("the artifact", [fault]) from None
    # What is refused in any case is refused before it has come.
    require_size(request.content_length or 0, bytes_max=artifacts.bytes_max)
    async with kept(request.body_chunks(), bytes_max=artifacts.bytes_max) as file:
        offered = ArtifactUpload(
            name=name, sha256=file.sha256, media_type=media_type_of(name), size=file.size
        )
        added = await artifacts.add(caller, job.id, offered, file.pieces(), epoch=None)
    return json_response(render_artifact(added), 201)


@post("/artifacts/{artifact_id:str}/share")
async def share_artifact(request: ApiRequest) -> ASGIApp:
    """Show an address by which anybody reads this one file, for a while."""
    visitor, _ = await sent(request, Sent)
    made = await request.coordinator.artifact_links.create(
        visitor.caller, request.path_name("artifact_id", "artifact"), LINK_TTL
    )
    path = f"{ROOT}/artifacts/{made.artifact.id}?link={made.secret}"
    return page(
        request,
        visitor,
        "shared.html",
        artifact=made.artifact,
        address=address_of(request) + path,
        lasts=LINK_TTL,
    )


@post("/artifacts/{artifact_id:str}/delete")
async def delete_artifact(request: ApiRequest) -> ASGIApp:
    """Remove a file; the job's story keeps that it was there."""
    visitor, _ = await sent(request, Sent)
    wanted = request.path_name("artifact_id", "artifact")
    gone = await request.coordinator.artifacts.delete(visitor.caller, wanted)
    return see_other(f"/jobs/{gone.job_id}")


ROUTES = (save_artifact, artifact_page, add_artifact, share_artifact, delete_artifact)
