"""The membership of this machine in a fleet: address, factory id and token, kept in a file."""

import re
import socket

import msgspec

from gigafactory.factory.core.data_dir import DataDir, read_secret, write_secret

_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class FleetMembership(msgspec.Struct, frozen=True, rename="camel"):
    """The result of enrolment, kept in a file that only the user can read."""

    url: str
    factory_id: str
    token: str


def default_factory_name() -> str:
    """Return the default name of this factory: its host name, as a valid factory id."""
    plain = _NOT_NAME.sub("-", socket.gethostname()).strip("-.")
    return plain[:100] or "this-machine"


def save_membership(data_dir: DataDir, membership: FleetMembership) -> None:
    """Write the membership for the next start."""
    write_secret(data_dir.token_file, msgspec.json.encode(membership).decode())


def load_token(data_dir: DataDir) -> str | None:
    """Return the stored token, which may have been rotated while the factory runs."""
    membership = load_membership(data_dir)
    return membership.token if membership is not None else None


def load_membership(data_dir: DataDir) -> FleetMembership | None:
    """Return the membership of an earlier enrolment, or None."""
    secret = read_secret(data_dir.token_file)
    return msgspec.json.decode(secret, type=FleetMembership) if secret else None
