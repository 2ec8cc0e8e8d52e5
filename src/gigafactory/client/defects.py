"""The call that reports an escaped defect."""

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.domain.tracker.defect import Source
from gigafactory.wire.jobs import JobView


def report(job: str, source: Source, reference: str) -> Call[JobView]:
    """Tell of a defect; the same one twice counts once."""
    body = msgspec.json.encode({"source": source, "reference": reference})
    return Call(method="POST", path=path("jobs", job, "defects"), answer=JobView, body=body)
