"""The pressure on a machine's resources, computed from readings of the system."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import Pressure
from gigafactory.factory.machine import health
from gigafactory.factory.machine.health import GIB, MachineHealth

READING = MachineHealth(
    folder="/data",
    disk_free=25 * GIB,
    disk_total=100 * GIB,
    memory_available=4 * GIB,
    memory_total=16 * GIB,
    load=3.0,
    cpus=4,
    cpu_ticks=(600, 1000),
)
MEMINFO = """\
MemTotal:       16315528 kB
MemFree:          523348 kB
MemAvailable:    8157764 kB
HugePages_Total:       0
"""
STAT = "cpu  100 10 40 700 50 3 7 2 0 0\ncpu0 50 5 20 350 25 1 3 1 0 0\nintr 1234\n"
VM_STAT = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            400000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages throttled:                              0.
Pages wired down:                        150000.
Pages purgeable:                            500.
"Translation faults":                1234567890.
"""

sizes = st.none() | st.integers(0, 2**60)
ticks = st.none() | st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))
readings = st.builds(
    MachineHealth,
    folder=st.just("/data"),
    disk_free=sizes,
    disk_total=sizes,
    memory_available=sizes,
    memory_total=sizes,
    load=st.none() | st.floats(0, 1e6),
    cpus=st.integers(1, 512),
    cpu_ticks=ticks,
)


def test_pressure_is_the_used_share_of_each_resource() -> None:
    before = replace(READING, cpu_ticks=(500, 600))
    assert health.to_pressure(READING, before) == Pressure(
        load=0.75, cpu=0.25, memory=0.75, disk=0.75
    )


def test_unknown_readings_give_no_pressure() -> None:
    assert health.to_pressure(MachineHealth(folder="/data")) == Pressure()
    assert health.to_pressure(READING).cpu is None
    assert health.to_pressure(READING, READING).cpu is None


@given(readings, st.none() | readings)
def test_pressure_stays_within_heartbeat_bounds(
    now: MachineHealth, before: MachineHealth | None
) -> None:
    said = health.to_pressure(now, before)
    assert all(each is None or 0 <= each <= 1 for each in (said.cpu, said.memory, said.disk))
    assert said.load is None or 0 <= said.load <= 10_000


def test_disk_below_its_floor_is_refused_with_a_message() -> None:
    sentence = health.disk_refusal(replace(READING, disk_free=GIB // 2), floor=2 * GIB)
    assert sentence is not None
    assert "the disk under /data has 0.5 GiB free, less than the floor of 2.0 GiB" in sentence
    assert "aq gc" in sentence


def test_disk_with_room_or_unknown_size_is_not_refused() -> None:
    assert health.disk_refusal(replace(READING, disk_free=2 * GIB), floor=2 * GIB) is None
    assert health.disk_refusal(replace(READING, disk_free=None), floor=2 * GIB) is None
    assert health.disk_refusal(READING, floor=30 * GIB) is not None


def test_memory_is_parsed_from_meminfo() -> None:
    assert health.parse_meminfo(MEMINFO) == (8157764 * 1024, 16315528 * 1024)
    assert health.parse_meminfo("MemTotal: 10 kB\nMemFree: 4 kB\n") == (4096, 10240)
    assert health.parse_meminfo("") is None


def test_cpu_ticks_are_parsed_from_proc_stat() -> None:
    assert health.parse_cpu_ticks(STAT) == (162, 912)
    assert health.parse_cpu_ticks("") is None
    assert health.parse_cpu_ticks("cpu 1 2\n") is None
    assert health.parse_cpu_ticks("intr 1 2 3 4 5") is None


def test_memory_is_parsed_from_vm_stat() -> None:
    assert health.parse_vm_stat(VM_STAT) == 33_500 * 16384
    assert health.parse_vm_stat("") is None


def test_container_limit_overrides_the_machine_memory() -> None:
    machine = (8 * GIB, 16 * GIB)
    used, stat = str(3 * GIB), f"anon 5\ninactive_file {GIB}\n"
    assert health.limit_to_cgroup(machine, f"{4 * GIB}\n", used, stat) == (2 * GIB, 4 * GIB)
    assert health.limit_to_cgroup(machine, str(64 * GIB), used, stat) == machine
    assert health.limit_to_cgroup(machine, str(GIB), used, "") == (0, GIB)
    assert health.limit_to_cgroup(machine, "max\n", used, stat) == machine
    assert health.limit_to_cgroup(machine, "", "", "") == machine
    assert health.limit_to_cgroup(None, str(GIB), used, stat) is None
