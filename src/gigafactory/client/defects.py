"""Call that reports an escaped defect."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.tracker.defect import DefectSource
from gigafactory.wire.jobs import JobView
from gigafactory.wire.reviews import DefectDoc


def report(job: str, source: DefectSource, reference: str) -> ApiCall[JobView]:
    """Report a defect; repeating one has no effect."""
    body = msgspec.json.encode(DefectDoc(source=source, reference=reference))
    return ApiCall(
        method="POST", path=path("jobs", job, "defects"), response_type=JobView, body=body
    )
