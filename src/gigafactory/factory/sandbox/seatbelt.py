"""The sandbox of macOS: a profile for `sandbox-exec`, in which the last matching rule wins."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.filesystem import Mount

EXECUTABLE = "/usr/bin/sandbox-exec"
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/fd")


class Seatbelt:
    """Runs programs under a sandbox profile."""

    own_network = False

    def wrap(self, program: Program, mounts: Sequence[Mount], *, network: bool) -> Program:
        """Return the program, wrapped so that it has only these mounts."""
        return msgspec.structs.replace(
            program,
            argv=(EXECUTABLE, "-p", profile(mounts, network=network), *program.argv),
        )


def profile(mounts: Sequence[Mount], *, network: bool) -> str:
    """Return the rules: nothing is readable or writable but for the mounts, each as it says."""
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny file-read* file-write*)",
        # Path lookup needs the metadata of parents and links, so their existence is not secret.
        "(allow file-read-metadata)",
        '(allow file-read* (literal "/") (subpath "/dev"))',
        *(f"(allow file-read* file-write* (subpath {_text(device)}))" for device in DEVICES),
    ]
    for place in mounts:
        rules += _rules(place)
    if not network:
        rules.append("(deny network*)")
    return "\n".join(rules) + "\n"


def _rules(place: Mount) -> list[str]:
    kind = "subpath" if place.is_folder else "literal"
    where = f"({kind} {_text(place.path)})"
    match place.access:
        case "write":
            return [f"(allow file-read* file-write* {where})"]
        case "read":
            return [f"(allow file-read* {where})", f"(deny file-write* {where})"]
        case "link":
            return []
        case "none" | "empty":
            return [
                f"(deny file-read* file-write* {where})",
                f"(allow file-read-metadata {where})",
            ]


def _text(path: Path | str) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
