"""The sandbox of Linux: bubblewrap, with an empty environment and its options over a descriptor."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gigafactory.factory.process.orphans import with_mark
from gigafactory.factory.process.spawn import EXTRA_INPUT, Program
from gigafactory.factory.sandbox.filesystem import Mount

REQUIRED_OPTION = "--disable-userns"
"""The newest option that we use: since version 0.8."""

ISOLATION = (
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--clearenv",
)
EMPTY_BYTES_MAX = 256 * 1024 * 1024
"""How much may be written to a folder that is shown empty: it lives in memory."""
KERNEL = ("acpi", "asound", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger")
"""Parts of /proc that root may change without any capability; a factory may run as root."""
KERNEL_VIEW = (
    *("--dev", "/dev", "--proc", "/proc"),
    *(word for name in KERNEL for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")),
)


class Bubblewrap:
    """Runs programs in their own namespaces."""

    own_network = True

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def wrap(self, program: Program, mounts: Sequence[Mount], *, network: bool) -> Program:
        """Return the program, wrapped so that it sees only these mounts."""
        env = with_mark(program.env, program.mark)
        words = options(mounts, env=env, cwd=program.cwd, network=network)
        return Program(
            argv=(self._executable, "--args", EXTRA_INPUT, "--", *program.argv),
            cwd=Path("/"),
            env={},
            mark=program.mark,
            stdin=program.stdin,
            stdin_open=program.stdin_open,
            extra_input=b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words),
            inherited_fds=program.inherited_fds,
            is_wrapper=True,
        )


def options(
    mounts: Sequence[Mount], *, env: Mapping[str, str], cwd: Path, network: bool
) -> list[str]:
    """Return bubblewrap's options in the order in which it applies them: parents first."""
    words = [*ISOLATION]
    if network:
        words.append("--share-net")
    words += KERNEL_VIEW
    for place in mounts:
        words += _mount_options(place)
    # The root itself is a file system in memory that has only what was mounted.
    words += ("--remount-ro", "/")
    for name in sorted(env):
        words += ["--setenv", name, env[name]]
    return [*words, "--chdir", str(cwd)]


def _mount_options(place: Mount) -> list[str]:
    path = str(place.path)
    match place.access:
        case "write":
            return ["--bind", path, path]
        case "read":
            return ["--ro-bind", path, path]
        case "none" if place.is_folder:
            return ["--size", str(EMPTY_BYTES_MAX), "--tmpfs", path]
        case "empty" if place.is_folder:
            return ["--tmpfs", path, "--remount-ro", path]
        case "link":
            return ["--symlink", place.target, path]
        case "none" | "empty":
            return ["--ro-bind", "/dev/null", path]
