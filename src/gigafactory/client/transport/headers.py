"""Request headers and sockets.

The fast path of `aq jobs` uses this module, so it imports little.
"""

import socket
from collections.abc import Mapping

ROOT = "/api/fleet"
THIS_MACHINE = ("127.", "localhost", "::1")


class Unsendable(ValueError):  # noqa: N818 - named after what happened
    """A header contains characters that are not allowed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.why = "only plain ASCII characters can be sent"
        super().__init__(f"{name}: {self.why}")


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine, which needs no proxy."""
    return host.lower().startswith(THIS_MACHINE)


def common_headers(token: str | None, product: str | None) -> dict[str, str]:
    """Return the headers of every request: accepted type, token, product."""
    headers = {"accept": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    if product:
        headers["x-product-id"] = product
    return headers


def encode_head(first: str, headers: Mapping[str, str]) -> bytes:
    """Return the request line and headers as bytes.

    Raises Unsendable.
    """
    for name, value in headers.items():
        # A line break would start another header.
        if not (value.isascii() and value.isprintable()):
            raise Unsendable(name)
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


def open_socket(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect to a server with an ASCII name; reads time out after `timeout_s` without data.

    Raises OSError.
    """
    # Bytes, because a str makes the socket module import the codec of international names.
    return socket.create_connection((host.encode("ascii"), port), timeout_s)  # type: ignore[arg-type]
