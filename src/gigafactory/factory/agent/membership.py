"""The membership of this machine: which fleet, under which name, with which token."""

import re
import socket

import msgspec

from gigafactory.factory.core.data_dir import DataDir, read_secret, write_secret


class FleetMembership(msgspec.Struct, frozen=True, rename="camel"):
    """What enrolling gave; it is kept in a file that only its user can read."""

    url: str
    factory_id: str
    token: str


def default_factory_name() -> str:
    """What this machine is called where nobody says: its host name, as a name in the fleet."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-.")
    return plain[:100] or "this-machine"


def save_membership(data_dir: DataDir, membership: FleetMembership) -> None:
    """Remember the membership for the next start."""
    write_secret(data_dir.token_file, msgspec.json.encode(membership).decode())


def load_token(data_dir: DataDir) -> str | None:
    """The token that is kept by now: it may have been rotated while the factory works."""
    membership = load_membership(data_dir)
    return membership.token if membership is not None else None


def load_membership(data_dir: DataDir) -> FleetMembership | None:
    """The membership of an earlier enrolment; None when there is none."""
    secret = read_secret(data_dir.token_file)
    return msgspec.json.decode(secret, type=FleetMembership) if secret else None
