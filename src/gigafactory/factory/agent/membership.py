"""The membership of this machine: which fleet, under which name, with which token."""

import re
import socket

import msgspec

from gigafactory.factory.core.data_dir import Places, keep_secret, read_secret


class Membership(msgspec.Struct, frozen=True, rename="camel"):
    """What enrolling gave; it is kept in a file that only its user can read."""

    url: str
    factory_id: str
    token: str


def usual_name() -> str:
    """What this machine is called where nobody says: its host name, as a name in the fleet."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-.")
    return plain[:100] or "this-machine"


def keep(places: Places, membership: Membership) -> None:
    """Remember the membership for the next start."""
    keep_secret(places.token, msgspec.json.encode(membership).decode())


def latest_token(places: Places) -> str | None:
    """The token that is kept by now: it may have been rotated while the factory works."""
    membership = kept(places)
    return membership.token if membership is not None else None


def kept(places: Places) -> Membership | None:
    """The membership of an earlier enrolment; None when there is none."""
    secret = read_secret(places.token)
    return msgspec.json.decode(secret, type=Membership) if secret else None
