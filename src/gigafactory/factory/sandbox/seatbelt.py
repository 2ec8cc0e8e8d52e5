"""The sandbox of macOS: a profile for `sandbox-exec`, in which the last matching rule wins."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.filesystem import Mount

EXECUTABLE = "/usr/bin/sandbox-exec"
SYSTEM_HIDDEN = ("/Library/Keychains", "/private/var/db", "/Volumes")
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
    """Return the rules: the system is readable, nothing writable, and each mount as it says."""
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        *(f"(allow file-write* (subpath {_text(device)}))" for device in DEVICES),
        *(f"(deny file-read* (subpath {_text(place)}))" for place in SYSTEM_HIDDEN),
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
        case "none" | "empty":
            # Path lookup needs the metadata of the parents, so their existence is not secret.
            return [
                f"(deny file-read* file-write* {where})",
                f"(allow file-read-metadata {where})",
            ]


def _text(path: Path | str) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
