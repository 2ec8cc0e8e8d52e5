"""Calls that submit jobs."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.manifest.encoder import manifest_to_json
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.wire.jobs import JobsView, JobView
from gigafactory.wire.submissions import BatchDoc, ChildrenDoc, JobDoc


def submit(file: JobFile) -> ApiCall[JobView]:
    """Submit one job."""
    return ApiCall(
        method="POST",
        path=path("jobs"),
        response_type=JobView,
        body=msgspec.json.encode(to_doc(file)),
    )


def submit_all(files: Sequence[JobFile]) -> ApiCall[JobsView]:
    """Submit several jobs, all or none."""
    body = msgspec.json.encode(BatchDoc(jobs=[to_doc(file) for file in files]))
    return ApiCall(method="POST", path=path("jobs"), response_type=JobsView, body=body)


def add_children(job: str, files: Sequence[JobFile]) -> ApiCall[JobsView]:
    """Add children to a composite, all or none."""
    body = msgspec.json.encode(ChildrenDoc(jobs=[to_doc(file) for file in files]))
    return ApiCall(
        method="POST", path=path("jobs", job, "children"), response_type=JobsView, body=body
    )


def to_doc(file: JobFile) -> JobDoc:
    """Return the wire record of a submitted job."""
    return JobDoc(manifest=manifest_to_json(file.manifest), body=file.body)
