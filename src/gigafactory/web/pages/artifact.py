"""A file that a job has left: saved by the browser, or read as text; never run in our origin."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.artifacts import download
from gigafactory.api.call import Call
from gigafactory.domain.artifact import Artifact
from gigafactory.domain.errors import NotFound
from gigafactory.web.rendering import page
from gigafactory.web.visit import visit

SHOWN_BYTES_MAX = 256 << 10
"""Larger files are read better elsewhere."""
TEXTS = frozenset({"application/json", "application/yaml", "application/xml"})


def readable(artifact: Artifact) -> bool:
    """Whether a page can show it as text."""
    kind = artifact.media_type.partition(";")[0]
    return artifact.size <= SHOWN_BYTES_MAX and (kind.startswith("text/") or kind in TEXTS)


@get("/artifacts/{artifact_id:str}")
async def save_artifact(request: Call) -> ASGIApp:
    """Send a file for the browser to save."""
    visitor = await visit(request)
    wanted = request.named("artifact_id", "artifact")
    return await download(request, await request.coordinator.artifacts.get(visitor.caller, wanted))


@get("/artifacts/{artifact_id:str}/text")
async def artifact_page(request: Call) -> ASGIApp:
    """Show a small file as the text that it is, whatever it says of itself."""
    visitor = await visit(request)
    coordinator = request.coordinator
    wanted = request.named("artifact_id", "artifact")
    found = await coordinator.artifacts.get(visitor.caller, wanted)
    if not readable(found):
        raise NotFound("text of artifact", wanted, "download it instead")
    data = b"".join([piece async for piece in coordinator.artifacts.read(found)])
    job = await coordinator.jobs.get(visitor.caller, found.job_id)
    text = data.decode("utf-8", "replace")
    return page(request, visitor, "artifact.html", artifact=found, job=job, text=text)


ROUTES = (save_artifact, artifact_page)
