"""The real sandbox, where this machine has one that works; else the refusal with its reason."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gigafactory.factory.process import Limits, Program
from gigafactory.factory.sandbox import NoSandbox, Sandbox, choose
from gigafactory.factory.sandbox_probe import probe
from tests.integration.factory.programs import Heard, ran, shell, stopping_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


class Nothing:
    """A tool that confines nobody."""

    def wrap(self, program: Program, seen: object, *, network: bool) -> Program:
        return program


class Broken:
    """A tool that is not permitted to do its work."""

    def wrap(self, program: Program, seen: object, *, network: bool) -> Program:
        return shell("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    try:
        yield await choose("workspace", hidden=[tmp_path])
    except NoSandbox as missing:
        pytest.skip(str(missing))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A worktree in the factory's own folder, beside its token."""
    (tmp_path / "token").write_text("hush-hush")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


async def said_in(
    sandbox: Sandbox, work: Path, script: str, policy: str | None = None
) -> list[str]:
    wrapped = sandbox.wrap(
        shell(script, cwd=work, env={"PATH": "/usr/bin:/bin", "KEY": "hush-key"}),
        writable=[work],
        readable=[work / ".git"],
        policy="strict" if policy == "strict" else None,
    )
    _, heard = await ran(wrapped)
    return heard.out


async def demanded() -> Sandbox | str:
    try:
        return await choose("strict")
    except NoSandbox as missing:
        return str(missing)


async def test_a_demanded_sandbox_is_had_or_refused_with_the_reason() -> None:
    found = await demanded()
    if isinstance(found, str):
        assert "the sandbox 'strict' is demanded, and cannot be had: " in found
    else:
        assert found.least == "strict"


async def test_without_a_demand_the_best_that_holds_is_taken() -> None:
    found = await choose(None)
    assert found.least == "none" if found.missing else found.least == "workspace"


async def test_switched_off_is_switched_off() -> None:
    assert (await choose("none")).least == "none"


async def test_a_tool_that_confines_nobody_is_found_out() -> None:
    assert (
        await probe(Nothing(), network=True) == "a program in it can write outside of its worktree"
    )


async def test_a_tool_that_may_not_work_is_found_out_with_its_own_words() -> None:
    assert "No permissions to create a new namespace" in (await probe(Broken(), network=True) or "")


async def test_only_the_worktree_can_be_written(sandbox: Sandbox, work: Path) -> None:
    script = """
    for place in . .git /usr /etc /; do
        if : 2>/dev/null > "$place/written"; then echo "$place"; fi
    done
    """
    assert await said_in(sandbox, work, script) == ["."]
    assert (work / "written").exists()


async def test_temporary_files_and_homes_are_private(sandbox: Sandbox, work: Path) -> None:
    script = "echo x > /tmp/mine && cat /tmp/mine; ls -A /root /home | grep -c ssh"
    assert await said_in(sandbox, work, script) == ["x", "0"]
    assert not Path("/tmp/mine").exists()  # noqa: ASYNC240


async def test_the_factory_s_token_cannot_be_read(sandbox: Sandbox, work: Path) -> None:
    assert await said_in(sandbox, work, "cat ../token 2>/dev/null; ls -A ..") == ["work"]


async def test_the_program_has_its_environment_and_the_sandbox_none_to_read(
    sandbox: Sandbox, work: Path
) -> None:
    script = "echo $KEY; tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1"
    assert await said_in(sandbox, work, script) == ["hush-key", "AQ_RUN"]


async def test_nothing_handed_over_is_seen_from_outside(sandbox: Sandbox, work: Path) -> None:
    wrapped = sandbox.wrap(
        shell("true", cwd=work, env={"PATH": "/bin", "KEY": "hush"}), writable=[]
    )
    assert not any("hush" in word for word in wrapped.argv)
    assert wrapped.env == {}


async def test_other_processes_are_not_seen_and_no_power_is_left(
    sandbox: Sandbox, work: Path
) -> None:
    script = """
    ls /proc | grep -c '^[0-9][0-9]*$' | { read n; [ "$n" -lt 12 ] && echo few; }
    grep CapEff /proc/self/status | tr -d '[:space:]'; echo
    unshare -U true 2>/dev/null && echo escaped; true
    """
    assert await said_in(sandbox, work, script) == ["few", "CapEff:0000000000000000"]


async def test_strict_has_no_network(sandbox: Sandbox, work: Path) -> None:
    script = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"
    assert await said_in(sandbox, work, script, "strict") == ["lo"]


async def test_a_gentle_signal_reaches_the_program_in_the_sandbox(
    sandbox: Sandbox, work: Path
) -> None:
    stop = asyncio.Event()
    script = "trap 'echo result; exit 7' INT; echo ready; while :; do sleep 0.01; done"
    wrapped = sandbox.wrap(shell(script, cwd=work), writable=[work])
    ended, heard = await ran(
        wrapped,
        Heard(stopping_at("ready", stop)),
        stop=stop,
        ladder=["SIGINT"],
        limits=Limits(wall_s=60, grace_s=30),
    )
    assert (heard.out, ended.exit_code) == (["ready", "result"], 7)


async def test_everything_in_the_sandbox_ends_with_it(sandbox: Sandbox, work: Path) -> None:
    stop = asyncio.Event()
    script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo ready; sleep 600' & wait; wait"
    wrapped = sandbox.wrap(shell(script, cwd=work), writable=[work])
    ended, _ = await ran(
        wrapped,
        Heard(stopping_at("ready", stop)),
        stop=stop,
        limits=Limits(wall_s=60, grace_s=0.2),
    )
    assert ended.why == "stopped"


async def test_input_and_answers_go_through(sandbox: Sandbox, work: Path) -> None:
    wrapped = sandbox.wrap(shell("cat; pwd", cwd=work, stdin=b"hello\n"), writable=[work])
    _, heard = await ran(wrapped)
    assert heard.out == ["hello", str(work)]
