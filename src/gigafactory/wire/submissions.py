"""Records of job submissions."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.wire.fields import RequestDoc
from gigafactory.wire.limits import BATCH_MAX


class JobDoc(RequestDoc, frozen=True, kw_only=True):
    """A job in JSON: the manifest's fields in camelCase, and the instructions."""

    manifest: dict[str, Any] = msgspec.field(default_factory=dict)
    body: str = ""


class BatchDoc(RequestDoc, frozen=True, kw_only=True):
    """Up to 1,000 jobs, all accepted or none."""

    jobs: Annotated[list[JobDoc], Meta(min_length=1, max_length=BATCH_MAX)]


class ChildrenDoc(RequestDoc, frozen=True, kw_only=True):
    """Up to 10,000 children, all accepted or none."""

    jobs: Annotated[list[JobDoc], Meta(min_length=1, max_length=CHILDREN_MAX)]


class FileNameQuery(RequestDoc, frozen=True, kw_only=True):
    """Name of the job file, used if it sets no `name`."""

    name: Annotated[str, Meta(max_length=200)] | None = None
