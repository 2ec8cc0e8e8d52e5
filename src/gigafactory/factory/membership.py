"""The membership of this machine: which fleet, under which name, with which token."""

import msgspec

from gigafactory.factory.places import Places, keep_secret, read_secret


class Membership(msgspec.Struct, frozen=True, rename="camel"):
    """What enrolling gave; it is kept in a file that only its user can read."""

    url: str
    factory_id: str
    token: str


def keep(places: Places, membership: Membership) -> None:
    """Remember the membership for the next start."""
    keep_secret(places.token, msgspec.json.encode(membership).decode())


def kept(places: Places) -> Membership | None:
    """The membership of an earlier enrolment; None when there is none."""
    secret = read_secret(places.token)
    return msgspec.json.decode(secret, type=Membership) if secret else None
