"""The real sandbox where the system supports it, or the refusal with its reason."""

import asyncio
import sys
import uuid
from pathlib import Path

import pytest

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.process.process import ProcessLimits, Program
from gigafactory.factory.sandbox.probe import find_secrets, probe
from gigafactory.factory.sandbox.sandbox import Sandbox, SandboxUnavailable, choose_sandbox
from tests.support.factory import real_sandbox as confining
from tests.support.factory.programs import OutputRecorder, run_program, shell, stop_on_line
from tests.support.factory.real_sandbox import a_sandbox, search_path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux"),
    # The first test on a machine downloads bubblewrap.
    pytest.mark.timeout(600),
]


class Nothing:
    """A sandbox tool that confines no process."""

    own_network = False

    def wrap(self, program: Program, seen: object, *, network: bool) -> Program:
        return program


class Broken:
    """A sandbox tool without the permissions that it needs."""

    own_network = True

    def wrap(self, program: Program, seen: object, *, network: bool) -> Program:
        return shell("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")


@pytest.fixture
async def sandbox(tmp_path: Path) -> Sandbox:
    return await a_sandbox(tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A worktree in the factory's own folder, next to its token."""
    (tmp_path / "token").write_text("hush-hush")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


def is_there(path: Path) -> bool:
    return path.exists()


async def output_in(
    sandbox: Sandbox, work: Path, script: str, policy: str | None = None
) -> list[str]:
    program = shell(script, cwd=work, env={"PATH": "/usr/bin:/bin", "KEY": "hush-key"})
    return await confining.output_in(
        sandbox,
        program,
        readable=[work / ".git"],
        policy="strict" if policy == "strict" else None,
    )


async def demanded() -> Sandbox | str:
    try:
        return await choose_sandbox("strict", environ={"PATH": search_path()})
    except SandboxUnavailable as missing:
        return str(missing)


async def test_required_sandbox_is_available_or_refused_with_a_reason() -> None:
    found = await demanded()
    if isinstance(found, str):
        assert "the sandbox 'strict' is demanded, and cannot be had: " in found
    else:
        assert found.minimum == "strict"


async def test_default_is_the_best_available_sandbox() -> None:
    found = await choose_sandbox(None, environ={"PATH": search_path()})
    assert found.minimum == ("none" if "workspace" in found.missing else "workspace")


async def test_sandbox_none_turns_the_sandbox_off() -> None:
    found = await choose_sandbox("none", environ={"PATH": search_path()})
    assert (found.minimum, found.policies) == ("none", ("none",))


async def test_missing_bubblewrap_is_reported_with_installation_advice() -> None:
    found = await choose_sandbox(None, environ={"PATH": "/nowhere"})
    assert (found.minimum, found.policies) == ("none", ("none",))
    with pytest.raises(
        SandboxUnavailable, match=r"'strict', .* this machine: bubblewrap is not installed"
    ):
        found.policy_for("strict")
    with pytest.raises(
        SandboxUnavailable, match=r"'workspace' is required .* apt-get install bubblewrap"
    ):
        await choose_sandbox("workspace", environ={"PATH": "/nowhere"})


async def test_working_sandbox_offers_workspace_and_strict(sandbox: Sandbox) -> None:
    assert sandbox.policies == ("none", "workspace", "strict")
    assert (sandbox.policy_for(None), sandbox.policy_for("strict")) == ("workspace", "strict")


async def test_a_tool_without_confinement_is_detected() -> None:
    assert await probe(Nothing(), network=True) == "a program in it can write outside its worktree"


async def test_broken_sandbox_tool_is_reported_with_its_error() -> None:
    assert "No permissions to create a new namespace" in (await probe(Broken(), network=True) or "")


async def test_only_the_worktree_can_be_written(sandbox: Sandbox, work: Path) -> None:
    script = """
    for place in . .git /usr /etc /; do
        if : 2>/dev/null > "$place/written"; then echo "$place"; fi
    done
    """
    assert await output_in(sandbox, work, script) == ["."]
    assert (work / "written").exists()


async def test_temporary_files_and_homes_are_private(sandbox: Sandbox, work: Path) -> None:
    mine = Path("/tmp", f"aq-{uuid.uuid4().hex}")
    script = f"echo x > {mine} && cat {mine}; ls -A /root /home | grep -c ssh"
    assert await output_in(sandbox, work, script) == ["x", "0"]
    assert not is_there(mine)


async def test_factory_token_cannot_be_read(sandbox: Sandbox, work: Path) -> None:
    assert await output_in(sandbox, work, "cat ../token 2>/dev/null; ls -A ..") == ["work"]


async def test_environment_reaches_the_program_but_not_the_sandbox_process(
    sandbox: Sandbox, work: Path
) -> None:
    script = "echo $KEY; tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1"
    assert await output_in(sandbox, work, script) == ["hush-key", "AQ_RUN"]


async def test_command_line_outside_the_sandbox_has_no_secrets(
    sandbox: Sandbox, work: Path
) -> None:
    program = shell("true", cwd=work, env={"PATH": "/bin", "KEY": "hush"})
    async with sandbox.confine(program, writable=[], policy="strict") as confined:
        assert not any("hush" in word for word in confined.argv)
        assert confined.env == {}


async def test_other_processes_are_hidden_and_no_capability_is_left(
    sandbox: Sandbox, work: Path
) -> None:
    script = """
    ls /proc | grep -c '^[0-9][0-9]*$' | { read n; [ "$n" -lt 12 ] && echo few; }
    grep CapEff /proc/self/status | tr -d '[:space:]'; echo
    unshare -U true 2>/dev/null && echo escaped; true
    """
    assert await output_in(sandbox, work, script) == ["few", "CapEff:0000000000000000"]


async def test_strict_sandbox_has_only_a_loopback_interface(sandbox: Sandbox, work: Path) -> None:
    script = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"
    assert await output_in(sandbox, work, script, "strict") == ["lo"]


@pytest.mark.parametrize("policy", ["workspace", "strict"])
async def test_stop_signal_reaches_the_program_in_the_sandbox(
    sandbox: Sandbox, work: Path, policy: Policy
) -> None:
    stop = asyncio.Event()
    script = "trap 'echo result; exit 7' INT; echo ready; while :; do sleep 0.01; done"
    program = shell(script, cwd=work)
    async with sandbox.confine(program, writable=[work], policy=policy) as confined:
        ended, heard = await run_program(
            confined,
            OutputRecorder(stop_on_line("ready", stop)),
            stop=stop,
            ladder=["SIGINT"],
            limits=ProcessLimits(wall_s=60, grace_s=30),
        )
    assert (heard.out, ended.exit_code) == (["ready", "result"], 7)


async def test_all_processes_in_the_sandbox_end_with_it(sandbox: Sandbox, work: Path) -> None:
    stop = asyncio.Event()
    script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo ready; sleep 600' & wait; wait"
    async with sandbox.confine(shell(script, cwd=work), writable=[work]) as confined:
        ended, _ = await run_program(
            confined,
            OutputRecorder(stop_on_line("ready", stop)),
            stop=stop,
            limits=ProcessLimits(wall_s=60, grace_s=0.2),
        )
    assert ended.reason == "stopped"


@pytest.mark.parametrize("policy", ["workspace", "strict"])
async def test_stdin_and_output_pass_through_the_sandbox(
    sandbox: Sandbox, work: Path, policy: Policy
) -> None:
    program = shell("cat; pwd", cwd=work, stdin=b"hello\n")
    assert await confining.output_in(sandbox, program, policy=policy) == ["hello", str(work)]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home and data of a service, in a folder that is visible to every run."""
    home, data = tmp_path / "opt" / "svc", tmp_path / "opt" / "gf"
    for file in (".ssh/id_ed25519", ".aws/credentials", ".local/share/uv/credentials/c.toml"):
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text("hush-hush")
    (data / "factory").mkdir(parents=True)
    for file in ("admin.token", "fleet.db", "factory/token"):
        (data / file).write_text("hush-hush")
    (home / ".local/share/uv/python").mkdir()
    (home / ".local/share/uv/python/readme").write_text("shown")
    monkeypatch.setenv("HOME", str(home))
    return tmp_path / "opt"


async def test_homes_and_data_are_hidden_wherever_they_are(service: Path, work: Path) -> None:
    secrets = find_secrets(service / "svc", service / "gf")
    assert {service / "gf" / "admin.token", service / "svc" / ".ssh" / "id_ed25519"} <= {*secrets}
    found = await choose_sandbox(
        None,
        environ={"PATH": search_path()},
        readable=[service, Path(sys.base_prefix)],
        hidden=[service / "gf"],
        secrets=secrets,
    )
    if found.missing:
        pytest.skip(found.missing["workspace"])
    result = await output_in(found, work, f"cd {service}; grep -rs hush .; find . -type f")
    assert result == ["./svc/.local/share/uv/python/readme"]


async def test_a_sandbox_that_shows_a_real_secret_does_not_hold(service: Path) -> None:
    found = await choose_sandbox(
        None,
        environ={"PATH": search_path()},
        readable=[service, Path(sys.base_prefix)],
        secrets=[service / "gf" / "admin.token"],
    )
    assert "can read hidden files" in found.missing["workspace"]
    assert "gf/admin.token" in found.missing["workspace"]
    assert found.no_yolo


async def test_other_top_level_folders_are_not_there(sandbox: Sandbox, work: Path) -> None:
    [shown] = await output_in(sandbox, work, "echo /*")
    usual = {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix", "gnu", "opt"}
    usual |= {"proc", "root", "run", "sbin", "sys", "tmp", "usr", "var", work.parts[1], "Users"}
    assert {Path(each).name for each in shown.split()} <= usual
    assert await output_in(sandbox, work, "ls /var /sys") == [
        "/sys:",
        "devices",
        "",
        "/var:",
        "tmp",
    ]
