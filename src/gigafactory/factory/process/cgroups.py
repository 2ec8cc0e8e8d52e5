"""Linux control groups (cgroup v2): one group for each run, where the factory may create groups.

No process can leave its group by changing its session, parent or environment, so a run can be
killed as a whole and shares one set of limits.
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
FACTORY_GROUP = "aq-factory"
"""The group of the factory itself: a group with children must not contain processes."""
CPU_PERIOD_US = 100_000
EMPTY_S_MAX = 10.0
LOOK_AGAIN_S = 0.005

log = structlog.get_logger()


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that all programs of one run share; None means unlimited."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpus: float | None = None

    def control_files(self) -> dict[str, str]:
        """Return the limits by the name of the control file that they are written to."""
        limits = {
            "memory.max": self.memory_bytes,
            "pids.max": self.processes,
            "cpu.max": self.cpus and f"{int(self.cpus * CPU_PERIOD_US)} {CPU_PERIOD_US}",
        }
        return {name: str(value) for name, value in limits.items() if value is not None}


class ControlGroups:
    """The control groups of runs, below the factory's own group."""

    def __init__(self, base: Path, limits: ResourceLimits | None = None) -> None:
        """Enable the controllers in `base`; log limits that cannot be enforced here."""
        self._base = base
        self._limits = (limits or ResourceLimits()).control_files()
        if self._limits:
            try:
                _enable_controllers(base, {name.partition(".")[0] for name in self._limits})
            except OSError as why:
                _warn_unlimited(str(why))
                self._limits = {}

    def path_of(self, mark: str) -> Path:
        """Return the path of a run's group."""
        return self._base / f"aq-{mark}"

    def create(self, mark: str) -> Path | None:
        """Create a run's group with its limits; return None if that is not possible."""
        group = self.path_of(mark)
        try:
            group.mkdir(exist_ok=True)
            for name, value in self._limits.items():
                (group / name).write_text(value)
        except OSError as why:
            log.warning("no control group", group=str(group), reason=str(why))
            return None
        return group


def open_control_groups(limits: ResourceLimits, *, proc: Path = SELF) -> ControlGroups | None:
    """Return the groups that this factory can create; None if its own group is not delegated."""
    base = delegated_group(proc)
    if base is None:
        if limits.control_files():
            _warn_unlimited(
                "no control group is delegated to this factory (systemd: `Delegate=yes`)"
            )
        return None
    return ControlGroups(base, limits)


def delegated_group(proc: Path = SELF) -> Path | None:
    """Return this process's group if it may create others in it; never the root group."""
    if sys.platform != "linux":
        return None
    group = next(_groups(proc), None)
    if group is None:
        return None
    base = group.parent if group.name == FACTORY_GROUP else group
    probe = base / f"aq-probe-{id(group):x}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return None
    return base


def add_process(group: Path, pid: int) -> None:
    """Move a newly started process, and everything it will start, into a group."""
    # A process that has already ended needs no group.
    with contextlib.suppress(OSError):
        (group / "cgroup.procs").write_text(str(pid))


async def kill_and_remove(group: Path) -> bool:
    """Kill everything in a group and remove it; return whether it ran out of memory."""
    return await asyncio.to_thread(_kill_and_remove, group)


def _kill_and_remove(group: Path) -> bool:
    starved = _ran_out_of_memory(group)
    give_up_at = time.monotonic() + EMPTY_S_MAX
    # Only a process that hangs in the kernel can delay this.
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
        while _text(group / "cgroup.procs").strip() and time.monotonic() < give_up_at:
            time.sleep(LOOK_AGAIN_S)
        group.rmdir()
    return starved


def _enable_controllers(base: Path, controllers: set[str]) -> None:
    ours = base / FACTORY_GROUP
    ours.mkdir(exist_ok=True)
    for pid in (base / "cgroup.procs").read_text().split():
        (ours / "cgroup.procs").write_text(pid)
    (base / "cgroup.subtree_control").write_text(
        " ".join(f"+{each}" for each in sorted(controllers))
    )


def _groups(proc: Path) -> Iterator[Path]:
    own = [line[3:] for line in _text(proc / "cgroup").splitlines() if line.startswith("0::/")]
    for line in _text(proc / "mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        root, mount = fields.split()[3:5]
        for path in own:
            if kind.startswith("cgroup2 ") and path != "/" and Path(path).is_relative_to(root):
                yield Path(mount) / Path(path).relative_to(root)


def _ran_out_of_memory(group: Path) -> bool:
    events = dict(line.split() for line in _text(group / "memory.events").splitlines())
    return events.get("oom_kill", "0") != "0"


def _warn_unlimited(reason: str) -> None:
    log.warning("memory, processes and CPUs of runs are not limited", reason=reason)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
