"""The problem document (RFC 9457) of a refused request."""

import msgspec

from gigafactory.domain.errors import Fault


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A refused request: `code` is stable, `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str | None = None
    faults: tuple[Fault, ...] = ()
    """All errors of the content, each with its field and, in a file, its line."""
    expected_offset: int | None = None
    """With `log_gap`: the offset to continue from."""
    job_id: str | None = None
    presented: int | None = None
    """With `fenced`: the epoch of the request."""
    current: int | None = None
    """With `fenced`: the current epoch of the job."""
    path: tuple[str, ...] = ()
    """With `cycle`: the names along the cycle."""
    retry_after: int | None = None
    """Seconds to wait."""


class ProblemMembers(msgspec.Struct, frozen=True):
    """The members that a client reads from any problem document, also from a proxy's."""

    code: str = ""
    title: str = ""
    detail: str = ""
