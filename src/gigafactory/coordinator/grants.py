"""Grants, and what they are made of before they are stored."""

from typing import NamedTuple

import msgspec

from gigafactory.coordinator.index import Seat
from gigafactory.domain.change import Change, Saved
from gigafactory.domain.decision import Pick
from gigafactory.domain.job import Job, JobSpec, Lease


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A lease with all that the worker needs to begin."""

    job: Job
    lease: Lease
    manifest: msgspec.Raw
    body: str
    protected_paths: tuple[str, ...] = ()
    """What of the repo needs a person's look when it was changed."""


class Wish(NamedTuple):
    """One job for one seat of a factory, as both were just read."""

    job: Job
    spec: JobSpec
    seat: Seat | Pick
    instance_id: str
    number: int = 0
    """Its place in the answer."""
    parent: Job | None = None
    """The composite that it is part of."""


class Granting(NamedTuple):
    """A grant, with the writes that make it true."""

    grant: Grant
    change: Change
    kept: tuple[Saved, ...]
