"""Measurements of disk, memory and CPU."""

import sys
from pathlib import Path

import pytest

from gigafactory.factory.machine import health


async def test_measure_reads_disk_and_cpus_of_this_machine(tmp_path: Path) -> None:
    reading = await health.measure(tmp_path)
    assert reading.disk_free is not None
    assert reading.cpus >= 1
    said = health.to_pressure(reading)
    assert said.disk is not None


async def test_missing_folder_has_unknown_free_disk(tmp_path: Path) -> None:
    reading = await health.measure(tmp_path / "gone")
    assert (reading.disk_free, health.disk_refusal(reading, floor=1)) == (None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")
async def test_linux_memory_and_cpu_are_read_from_proc_and_cgroup(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable: 1024 kB\n")
    (tmp_path / "stat").write_text("cpu  1 0 1 8 0 0 0 0 0 0\n")
    (tmp_path / "memory.max").write_text(f"{2048 * 1024}\n")
    (tmp_path / "memory.current").write_text(f"{1536 * 1024}\n")
    reading = await health.measure(tmp_path, proc=tmp_path, cgroup=tmp_path)
    assert (reading.memory_available, reading.memory_total) == (512 * 1024, 2048 * 1024)
    assert reading.cpu_ticks == (2, 10)
    bare = await health.measure(tmp_path, proc=tmp_path / "gone", cgroup=tmp_path / "gone")
    assert (bare.memory_total, bare.cpu_ticks) == (None, None)
