"""Machine health: load, memory and disk, and whether new work may start."""

import os
import re
import shutil
import sys
from pathlib import Path

import msgspec

from gigafactory.domain.fleet.factory import Pressure
from gigafactory.factory.process.probe import probe_environment, run_probe

GIB = 1024**3
LOAD_MAX = 10_000.0

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
PSEUDO_FILE_BYTES_MAX = 64 * 1024

_MEMINFO = re.compile(r"(?m)^(\w+):\s+(\d+)")
_PAGE_SIZE = re.compile(r"page size of (\d+) bytes")
_PAGES = re.compile(r"(?m)^Pages (\w+):\s+(\d+)\.")
_FILE_CACHE = re.compile(r"(?m)^inactive_file (\d+)")
_AVAILABLE_PAGES = ("free", "inactive", "speculative", "purgeable")


class MachineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement; None for values that the system does not provide."""

    folder: str
    """The data folder: its disk is measured."""
    disk_free: int | None = None
    disk_total: int | None = None
    memory_available: int | None = None
    memory_total: int | None = None
    load: float | None = None
    """Runnable processes, averaged over the last minute."""
    cpus: int = 1
    cpu_ticks: tuple[int, int] | None = None
    """Busy and total CPU ticks since the machine started."""


def to_pressure(now: MachineHealth, before: MachineHealth | None = None) -> Pressure:
    """Return the pressure for a heartbeat; CPU usage needs an earlier measurement."""
    return Pressure(
        load=None if now.load is None else round(min(now.load / now.cpus, LOAD_MAX), 3),
        cpu=_busy(before.cpu_ticks if before else None, now.cpu_ticks),
        memory=_used(now.memory_available, now.memory_total),
        disk=_used(now.disk_free, now.disk_total),
    )


def disk_refusal(reading: MachineHealth, *, floor: int) -> str | None:
    """Return why no new work may start; None if the disk has enough space."""
    if reading.disk_free is None or reading.disk_free >= floor:
        return None
    return (
        f"the disk under {reading.folder} has {_gib(reading.disk_free)} GiB free, less than the"
        f" floor of {_gib(floor)} GiB: no new work is taken until space is freed; `aq gc` removes"
        " what is no longer needed"
    )


def parse_meminfo(text: str) -> tuple[int, int] | None:
    """Return available and total bytes from Linux's /proc/meminfo."""
    kib = {name: int(value) for name, value in _MEMINFO.findall(text)}
    total = kib.get("MemTotal")
    available = kib.get("MemAvailable", kib.get("MemFree"))
    return None if total is None or available is None else (available * 1024, total * 1024)


def parse_cpu_ticks(text: str) -> tuple[int, int] | None:
    """Return busy and total ticks from Linux's /proc/stat; I/O wait is not busy."""
    words = text.partition("\n")[0].split()
    ticks = [int(word) for word in words[1:9] if word.isdecimal()]
    if words[:1] != ["cpu"] or len(ticks) < len(("user", "nice", "system", "idle")):
        return None
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def parse_vm_stat(text: str) -> int | None:
    """Return available bytes from the output of macOS's `vm_stat`."""
    size = _PAGE_SIZE.search(text)
    pages = dict(_PAGES.findall(text))
    if size is None or "free" not in pages:
        return None
    return int(size[1]) * sum(int(pages.get(kind, 0)) for kind in _AVAILABLE_PAGES)


def limit_to_cgroup(
    machine: tuple[int, int] | None, limit: str, used: str, stat: str
) -> tuple[int, int] | None:
    """Apply a container's memory limit to available and total bytes; file cache is available."""
    if machine is None or not (limit.strip().isdigit() and used.strip().isdigit()):
        return machine
    cached = _FILE_CACHE.search(stat)
    total = min(machine[1], int(limit))
    taken = int(used) - (int(cached[1]) if cached else 0)
    return min(machine[0], max(0, total - taken)), total


def cpus() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:  # noqa: RET505 - a type checker follows platforms by branches only
        return os.cpu_count() or 1


def memory_total() -> int | None:
    """Return the bytes of memory of this machine or container."""
    if sys.platform == "linux":
        memory = _linux_memory(PROC, CGROUP)
        return memory and memory[1]
    elif sys.platform == "win32":  # noqa: RET505 - as above
        return None
    else:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            return None


async def measure(folder: Path, *, proc: Path = PROC, cgroup: Path = CGROUP) -> MachineHealth:
    """Measure the machine now; leave out what cannot be measured."""
    disk = _disk(folder)
    memory = await _memory(proc, cgroup)
    return MachineHealth(
        folder=str(folder),
        disk_free=disk and disk[0],
        disk_total=disk and disk[1],
        memory_available=memory and memory[0],
        memory_total=memory and memory[1],
        load=_load(),
        cpus=cpus(),
        cpu_ticks=parse_cpu_ticks(_text(proc / "stat")),
    )


def _disk(folder: Path) -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.free, usage.total


def _load() -> float | None:
    if sys.platform == "win32":
        return None
    else:  # noqa: RET505 - as above
        try:
            return os.getloadavg()[0]
        except OSError:
            return None


async def _memory(proc: Path, cgroup: Path) -> tuple[int, int] | None:
    if sys.platform == "darwin":
        total = memory_total()
        answer = await run_probe(("vm_stat",), env=probe_environment(os.environ))
        available = parse_vm_stat(answer.text)
        return None if available is None or total is None else (min(available, total), total)
    else:  # noqa: RET505 - as above
        return _linux_memory(proc, cgroup)


def _linux_memory(proc: Path, cgroup: Path) -> tuple[int, int] | None:
    limits = (_text(cgroup / f"memory.{name}") for name in ("max", "current", "stat"))
    return limit_to_cgroup(parse_meminfo(_text(proc / "meminfo")), *limits)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as pseudo:
            return pseudo.read(PSEUDO_FILE_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""


def _used(free: int | None, total: int | None) -> float | None:
    if free is None or not total:
        return None
    return round(min(max(1 - free / total, 0.0), 1.0), 3)


def _busy(before: tuple[int, int] | None, now: tuple[int, int] | None) -> float | None:
    if before is None or now is None or now[1] <= before[1]:
        return None
    return round(min(max((now[0] - before[0]) / (now[1] - before[1]), 0.0), 1.0), 3)


def _gib(count: int) -> str:
    return f"{count / GIB:.1f}"
