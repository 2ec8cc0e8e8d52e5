"""The sandbox of Linux: bubblewrap, with an empty environment and options over a descriptor."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gigafactory.factory.process.orphans import marked
from gigafactory.factory.process.spawn import HANDED, Program
from gigafactory.factory.sandbox.filesystem import Place

REQUIRED_OPTION = "--disable-userns"
"""The youngest of the options that we use: in version 0.8."""

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
"""What may be written to a folder that is shown empty: it is kept in memory."""
KERNEL = ("acpi", "asound", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger")
"""In /proc, what root may change without any capability, as whom a factory may run."""
SYSTEM = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *(word for name in KERNEL for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")),
)


class Bubblewrap:
    """Runs programs in namespaces of their own."""

    own_network = True

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def wrap(self, program: Program, seen: Sequence[Place], *, network: bool) -> Program:
        """The same program, seeing only what it may."""
        env = marked(program.env, program.mark)
        words = options(seen, env=env, cwd=program.cwd, network=network)
        return Program(
            argv=(self._executable, "--args", HANDED, "--", *program.argv),
            cwd=Path("/"),
            env={},
            mark=program.mark,
            stdin=program.stdin,
            stdin_open=program.stdin_open,
            handed=b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words),
            inherited=program.inherited,
            wraps=True,
        )


def options(
    seen: Sequence[Place], *, env: Mapping[str, str], cwd: Path, network: bool
) -> list[str]:
    """The options, in the order in which bubblewrap obeys them: places above before those below."""
    words = [*ISOLATION]
    if network:
        words.append("--share-net")
    words += SYSTEM
    for place in seen:
        words += _mount(place)
    for name in sorted(env):
        words += ["--setenv", name, env[name]]
    return [*words, "--chdir", str(cwd)]


def _mount(place: Place) -> list[str]:
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
        case "none" | "empty":
            return ["--ro-bind", "/dev/null", path]
