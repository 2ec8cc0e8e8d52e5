"""The problem document (RFC 9457) of a refused request."""

import msgspec

from gigafactory.domain.errors import Fault


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A refusal: `code` is stable, `detail` is for people, the rest where it applies."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str | None = None
    faults: tuple[Fault, ...] = ()
    """Everything that is wrong with the content, each with its field and, in a file, its line."""
    expected_offset: int | None = None
    """After `log_gap`: where to go on from."""
    job_id: str | None = None
    presented: int | None = None
    """After `fenced`: the epoch that came with the request."""
    current: int | None = None
    """After `fenced`: the epoch that the job is at."""
    path: tuple[str, ...] = ()
    """After `cycle`: the names along the circle."""
    retry_after: int | None = None
    """Seconds to wait."""
