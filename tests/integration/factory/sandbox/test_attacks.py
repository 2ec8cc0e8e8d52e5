"""Attacks of hostile programs inside the sandbox."""

import os
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gigafactory.factory.sandbox.sandbox import Sandbox
from tests.support.factory.programs import python, shell
from tests.support.factory.real_sandbox import a_sandbox, output_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux"),
    # The first test on a machine downloads bubblewrap.
    pytest.mark.timeout(600),
]


@pytest.fixture
async def sandbox(tmp_path: Path) -> Sandbox:
    return await a_sandbox(tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A worktree in a factory's data folder, next to its token and the work of other jobs."""
    for place in ("worktrees/mine", "worktrees/theirs", "homes/theirs", "mirrors/notes.git/hooks"):
        (tmp_path / place).mkdir(parents=True)
    for secret in ("token", "worktrees/theirs/work.py", "homes/theirs/login"):
        (tmp_path / secret).write_text("hush-hush")
    (tmp_path / "mirrors/notes.git/config").write_text("[core]\n")
    return tmp_path / "worktrees" / "mine"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that no setting hides, with a path short enough for sockets."""
    made = Path("/tmp", f"aq-{uuid.uuid4().hex[:8]}")
    made.mkdir()
    yield made
    for each in made.iterdir():
        each.unlink()
    made.rmdir()


async def test_factory_files_of_other_jobs_are_hidden(
    sandbox: Sandbox, work: Path, tmp_path: Path
) -> None:
    script = f"grep -rs hush {tmp_path}; find {tmp_path} -type f; ls {tmp_path}/worktrees"
    assert await output_in(sandbox, shell(script, cwd=work)) == ["mine"]


async def test_symlink_to_a_hidden_file_cannot_be_read(
    sandbox: Sandbox, work: Path, tmp_path: Path
) -> None:
    (work / "link").symlink_to(tmp_path / "token")
    script = "cat link 2>/dev/null || echo nothing"
    assert await output_in(sandbox, shell(script, cwd=work)) == ["nothing"]


async def test_git_hooks_and_config_of_the_mirror_cannot_be_written(
    sandbox: Sandbox, work: Path, tmp_path: Path
) -> None:
    mirror = tmp_path / "mirrors" / "notes.git"
    script = f"""
    mkdir -p {mirror}/hooks
    echo '[core] fsmonitor = touch /x' > {mirror}/config
    echo 'touch /x' > {mirror}/hooks/post-checkout
    git config --file /etc/gitconfig core.fsmonitor x || echo read-only
    """
    said = await output_in(sandbox, shell(script, cwd=work))
    assert "read-only" in said
    assert (mirror / "config").read_text() == "[core]\n"
    assert list((mirror / "hooks").iterdir()) == []


async def test_system_secrets_cannot_be_read_even_as_root(sandbox: Sandbox, work: Path) -> None:
    script = "cat /etc/shadow /etc/gshadow /etc/ssh/*key /proc/kcore 2>/dev/null | wc -c"
    assert await output_in(sandbox, shell(script, cwd=work)) == ["0"]


async def test_kernel_settings_and_mounts_cannot_be_changed(sandbox: Sandbox, work: Path) -> None:
    script = """
    for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/power/state; do
        if : 2>/dev/null >> "$file"; then echo "$file can be written"; fi
    done
    mount -t tmpfs none /mnt 2>/dev/null && echo mounted
    umount /tmp 2>/dev/null && echo unmounted
    chroot / true 2>/dev/null && echo chrooted
    true
    """
    assert await output_in(sandbox, shell(script, cwd=work)) == []


TRACE = """
import ctypes, os, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
print("attached" if libc.ptrace(16, pid, None, None) == 0 else "not attached")
try:
    os.kill(pid, 0)
    print("signalled")
except OSError:
    print("not signalled")
print("seen" if os.path.exists(f"/proc/{pid}/mem") else "not seen")
"""


async def test_factory_process_cannot_be_seen_traced_or_signalled(
    sandbox: Sandbox, work: Path
) -> None:
    # The PID of the factory does not exist in the sandbox, where all PIDs are small.
    program = python(f"import sys; sys.argv = ['', '{os.getpid()}']\n{TRACE}", cwd=work)
    assert os.getpid() > 10, "a number that no process in the sandbox has"
    assert await output_in(sandbox, program) == ["not attached", "not signalled", "not seen"]


TERMINAL = """
import fcntl, os, termios
for name in ("/dev/tty", "/dev/console", "/proc/self/fd/0", "/proc/self/fd/1"):
    try:
        terminal = os.open(name, os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
        print(name, "was typed into")
    except OSError:
        pass
print("a session of its own" if os.getsid(0) != 0 else "the factory's session")
"""


async def test_sandboxed_program_cannot_type_into_the_terminal(
    sandbox: Sandbox, work: Path
) -> None:
    assert await output_in(sandbox, python(TERMINAL, cwd=work)) == ["a session of its own"]


CONNECT = """
import socket, sys
for address in {addresses}:
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as asked:
        asked.settimeout(5)
        try:
            asked.connect(address)
            print("reached")
        except OSError:
            print("not reached")
"""


def listening(address: str | tuple[str, int]) -> socket.socket:
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen()
    return listener


async def test_sockets_of_agents_buses_and_the_factory_are_unreachable(
    sandbox: Sandbox, work: Path, folder: Path
) -> None:
    agent = str(folder / "ssh-agent")
    with listening(agent):
        services = ("dbus/system_bus_socket", "docker.sock", "user/1000/bus")
        addresses = [agent, *(f"/run/{name}" for name in services), "/var/run/docker.sock"]
        program = python(CONNECT.format(addresses=addresses), cwd=work)
        assert await output_in(sandbox, program) == ["not reached"] * len(addresses)


async def test_local_listeners_are_unreachable_in_the_strict_sandbox(
    sandbox: Sandbox, work: Path
) -> None:
    unnamed = f"\0aq-{uuid.uuid4().hex}"
    with listening(unnamed), listening(("127.0.0.1", 0)) as loopback:
        addresses = [unnamed, ("127.0.0.1", loopback.getsockname()[1]), ("192.0.2.1", 80)]
        program = python(CONNECT.format(addresses=addresses), cwd=work)
        assert await output_in(sandbox, program, policy="strict") == ["not reached"] * 3


async def test_no_factory_descriptor_is_inherited(sandbox: Sandbox, work: Path) -> None:
    script = "import os; print(sorted(set(os.listdir('/proc/self/fd')) - {'0', '1', '2', '3'}))"
    for policy in ("workspace", "strict"):
        program = python(script, cwd=work)
        said = await output_in(sandbox, program, policy="strict" if policy == "strict" else None)
        assert said == ["[]"]
