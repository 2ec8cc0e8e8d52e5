"""Control groups of Linux: where a factory has one to divide, each run is held in one of its own.

Nothing leaves its group, whatever it does with its session, parents and environment: it is killed
as a whole, and shares the limits of the run.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

SELF = Path("/proc/self")
OURS = "aq-factory"
"""Where the factory itself is: a group that is divided has no processes of its own."""
CPU_PERIOD_US = 100_000
EMPTY_S_MAX = 10.0
LOOK_AGAIN_S = 0.005

log = structlog.get_logger()


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What all programs of one run may have together; None: as much as there is."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpus: float | None = None

    def files(self) -> dict[str, str]:
        """The limits, by the files of a group that they are written to."""
        asked = {
            "memory.max": self.memory_bytes,
            "pids.max": self.processes,
            "cpu.max": self.cpus and f"{int(self.cpus * CPU_PERIOD_US)} {CPU_PERIOD_US}",
        }
        return {name: str(value) for name, value in asked.items() if value is not None}


class ControlGroups:
    """The groups below the factory's own."""

    def __init__(self, base: Path, allowance: Allowance | None = None) -> None:
        """Divide this group; what cannot be limited here is told, and goes on without."""
        self._base = base
        self._limits = (allowance or Allowance()).files()
        if self._limits:
            try:
                _divide(base, {name.partition(".")[0] for name in self._limits})
            except OSError as why:
                _not_limited(str(why))
                self._limits = {}

    def of(self, mark: str) -> Path:
        """The group of a run."""
        return self._base / f"aq-{mark}"

    def made(self, mark: str) -> Path | None:
        """The group of a run, ready to be entered; None when there is none to be had."""
        group = self.of(mark)
        try:
            group.mkdir(exist_ok=True)
            for name, value in self._limits.items():
                (group / name).write_text(value)
        except OSError as why:
            log.warning("no control group", group=str(group), reason=str(why))
            return None
        return group


def divided(allowance: Allowance, *, proc: Path = SELF) -> ControlGroups | None:
    """The groups that this factory may make: none where its own is not its own to divide."""
    base = own_group(proc)
    if base is None:
        if allowance.files():
            _not_limited("this factory has no control group to divide (systemd: `Delegate=yes`)")
        return None
    return ControlGroups(base, allowance)


def own_group(proc: Path = SELF) -> Path | None:
    """The group that this process was given, if it may make others in it; never the root of all."""
    if sys.platform != "linux":
        return None
    group = next(_groups(proc), None)
    if group is None:
        return None
    base = group.parent if group.name == OURS else group
    probe = base / f"aq-probe-{id(group):x}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return None
    return base


def enter(group: Path, pid: int) -> None:
    """Put a process that was just started into a group, and with it all that it will start."""
    # One that has ended already needs no group.
    with contextlib.suppress(OSError):
        (group / "cgroup.procs").write_text(str(pid))


async def end(group: Path) -> bool:
    """Kill all that is in a group, and remove it; tells whether it had wanted too much memory."""
    return await asyncio.to_thread(_end, group)


def _end(group: Path) -> bool:
    starved = _starved(group)
    give_up_at = time.monotonic() + EMPTY_S_MAX
    # In here it is a process in the system's own hands that may hold this up, and nobody else's.
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
        while _text(group / "cgroup.procs").strip() and time.monotonic() < give_up_at:
            time.sleep(LOOK_AGAIN_S)
        group.rmdir()
    return starved


def _divide(base: Path, controllers: set[str]) -> None:
    ours = base / OURS
    ours.mkdir(exist_ok=True)
    for pid in (base / "cgroup.procs").read_text().split():
        (ours / "cgroup.procs").write_text(pid)
    (base / "cgroup.subtree_control").write_text(
        " ".join(f"+{each}" for each in sorted(controllers))
    )


def _groups(proc: Path) -> Iterator[Path]:
    """Our own group, where the one hierarchy that counts is mounted."""
    own = [line[3:] for line in _text(proc / "cgroup").splitlines() if line.startswith("0::/")]
    for line in _text(proc / "mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        root, mount = fields.split()[3:5]
        for path in own:
            if kind.startswith("cgroup2 ") and path != "/" and Path(path).is_relative_to(root):
                yield Path(mount) / Path(path).relative_to(root)


def _starved(group: Path) -> bool:
    events = dict(line.split() for line in _text(group / "memory.events").splitlines())
    return events.get("oom_kill", "0") != "0"


def _not_limited(reason: str) -> None:
    log.warning("runs are not limited in memory, processes and processors", reason=reason)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
