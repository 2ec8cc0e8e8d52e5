"""The call that tells of a defect of something shipped."""

import msgspec

from gigafactory.client.answers import Job
from gigafactory.client.call import Call, path
from gigafactory.domain.defect import Source


def report(job: str, source: Source, reference: str) -> Call[Job]:
    """Tell of a defect; the same one twice counts once."""
    body = msgspec.json.encode({"source": source, "reference": reference})
    return Call(method="POST", path=path("jobs", job, "defects"), answer=Job, body=body)
