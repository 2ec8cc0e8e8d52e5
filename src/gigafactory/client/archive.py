"""The calls on the archive: jobs that were finished for long."""

from gigafactory.client.answers import ArchivePage
from gigafactory.client.call import Call, path


def page(*, limit: int = 50, cursor: str | None = None) -> Call[ArchivePage]:
    """One page of archived jobs, oldest first."""
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path=path("archive"), answer=ArchivePage, query=query)


def content(job_id: str) -> Call[bytes]:
    """The compressed file of an archived job; a large one is best taken piece by piece."""
    return Call(method="GET", path=path("archive", job_id), answer=bytes)
