"""Stopping real programs and their remaining processes."""

import asyncio
import signal

import pytest

from gigafactory.factory.process.orphans import (
    Orphan,
    find_orphans,
    kill_orphan,
    kill_orphans,
    new_mark,
)
from gigafactory.factory.process.process import ProcessLimits
from tests.support.factory.programs import (
    OutputRecorder,
    python,
    run_program,
    set_on_output,
    shell,
    stop_on_line,
)

DEAF = "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done"
QUICK = ProcessLimits(wall_s=60.0, grace_s=0.2)

DAEMON = """
import os, signal, sys, time
for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(name, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if {closes}:
            null = os.open(os.devnull, os.O_RDWR)
        print("ready", flush=True)
        if {closes}:
            for fd in (0, 1, 2):
                os.dup2(null, fd)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


async def test_program_beyond_its_wall_limit_is_stopped() -> None:
    ended, _ = await run_program(
        shell("exec sleep 600"), limits=ProcessLimits(wall_s=0.2, grace_s=5)
    )
    assert (ended.reason, ended.exit_code) == ("timeout", -signal.SIGTERM)


async def test_silent_program_is_stopped_as_stalled() -> None:
    limits = ProcessLimits(wall_s=60, stall_s=1, grace_s=5)
    ended, heard = await run_program(shell("echo one; exec sleep 600"), limits=limits)
    assert (ended.reason, heard.out) == ("stalled", ["one"])


async def test_program_that_keeps_printing_does_not_stall() -> None:
    script = "import time\nfor n in range(24): print(n, flush=True); time.sleep(0.05)"
    ended, heard = await run_program(
        python(script), limits=ProcessLimits(wall_s=60, stall_s=1, grace_s=1)
    )
    assert (ended.reason, len(heard.out)) == ("exited", 24)


async def test_program_receives_its_stop_signal_first_and_is_read_to_its_end() -> None:
    stop = asyncio.Event()
    script = "trap 'echo result; exit 7' INT; echo ready; while :; do sleep 0.01; done"
    ended, heard = await run_program(
        shell(script),
        OutputRecorder(stop_on_line("ready", stop)),
        stop=stop,
        ladder=["SIGINT"],
        limits=ProcessLimits(wall_s=60, grace_s=30),
    )
    assert (ended.reason, ended.exit_code) == ("stopped", 7)
    assert heard.out == ["ready", "result"]


async def test_program_that_ignores_signals_is_killed_at_the_end_of_the_ladder() -> None:
    stop = asyncio.Event()
    ended, _ = await run_program(
        shell(DEAF),
        OutputRecorder(stop_on_line("ready", stop)),
        stop=stop,
        ladder=["SIGINT"],
        limits=QUICK,
    )
    assert (ended.reason, ended.exit_code) == ("stopped", -signal.SIGKILL)


async def test_stop_signal_reaches_the_whole_process_group() -> None:
    stop = asyncio.Event()
    script = """
    sh -c 'trap "echo inner; exit" TERM; echo ready; while :; do sleep 0.01; done' &
    trap '' TERM
    wait; wait; echo outer
    """
    _, heard = await run_program(
        shell(script),
        OutputRecorder(stop_on_line("ready", stop)),
        stop=stop,
        limits=ProcessLimits(wall_s=60, grace_s=30),
    )
    assert heard.out == ["ready", "inner", "outer"]


async def test_stop_requested_before_the_start_stops_at_once() -> None:
    stop = asyncio.Event()
    stop.set()
    ended, _ = await run_program(shell("exec sleep 600"), stop=stop)
    assert ended.reason == "stopped"


async def test_grandchild_in_another_session_that_ignores_signals_is_killed() -> None:
    stop = asyncio.Event()
    what = shell(f'setsid sh -c "{DEAF}" & wait')
    ended, _ = await run_program(
        what, OutputRecorder(stop_on_line("ready", stop)), stop=stop, limits=QUICK
    )
    assert ended.reason == "stopped"
    assert any("sleep 600" in stray.command for stray in ended.orphans.killed)


@pytest.mark.parametrize("closes", [True, False])
async def test_daemon_that_forked_twice_is_killed_after_its_program_exits(
    closes: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    ended, heard = await run_program(python(DAEMON.format(closes=closes)))
    assert (ended.reason, ended.exit_code, heard.out) == ("exited", 0, ["ready"])
    assert [stray.command.count("fork") > 0 for stray in ended.orphans.killed] == [True]


async def test_grandchild_holding_the_pipe_does_not_delay_the_end() -> None:
    ended, heard = await run_program(shell("setsid sleep 600 & echo done"))
    assert (ended.reason, ended.exit_code, heard.out) == ("exited", 0, ["done"])
    assert [stray.command for stray in ended.orphans.killed] == ["sleep 600"]


async def test_output_of_a_short_lived_grandchild_is_still_read() -> None:
    ended, heard = await run_program(shell("(sleep 0.2; echo late) & echo done"))
    assert heard.out == ["done", "late"]
    assert [stray for stray in ended.orphans.killed if stray.command] == []


async def test_a_grandchild_without_its_environment_is_found_by_its_session() -> None:
    ended, _ = await run_program(shell("env -i sleep 600 >/dev/null 2>&1 & echo done"))
    assert [stray.command for stray in ended.orphans.killed] == ["sleep 600"]


async def test_a_grandchild_without_its_environment_is_found_by_its_parent() -> None:
    stop = asyncio.Event()
    script = "setsid sh -c 'trap \"\" TERM; setsid env -i sleep 600 & echo ready; wait' & wait"
    ended, _ = await run_program(
        shell(script), OutputRecorder(stop_on_line("ready", stop)), stop=stop, limits=QUICK
    )
    assert any("sleep 600" in stray.command for stray in ended.orphans.killed)


async def test_processes_that_keep_forking_are_all_killed() -> None:
    stop = asyncio.Event()
    script = """
    trap '' TERM
    breed() { while :; do setsid sleep 600 & sleep 0.05; done; }
    breed & breed & echo ready; wait
    """
    what = shell(script)
    ended, _ = await run_program(
        what, OutputRecorder(stop_on_line("ready", stop)), stop=stop, limits=QUICK
    )
    assert any(stray.command == "sleep 600" for stray in ended.orphans.killed)
    assert (ended.orphans.survived, find_orphans(what.mark)) == ((), [])


async def test_stopping_one_run_leaves_another_run_alive() -> None:
    stop, ready, finish = asyncio.Event(), asyncio.Event(), asyncio.Event()
    other = OutputRecorder(set_on_output(ready))
    kept = asyncio.ensure_future(
        run_program(shell("setsid sleep 600 & echo ready; wait"), other, stop=finish, limits=QUICK)
    )
    await ready.wait()
    await run_program(
        shell(DEAF), OutputRecorder(stop_on_line("ready", stop)), stop=stop, limits=QUICK
    )
    assert not kept.done()
    finish.set()
    ended, _ = await kept
    assert ended.reason == "stopped"


async def test_process_with_a_reused_pid_is_not_killed() -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    what = shell("echo ready; exec sleep 600")
    task = asyncio.ensure_future(run_program(what, OutputRecorder(set_on_output(ready)), stop=stop))
    await ready.wait()
    (found,) = find_orphans(what.mark)
    assert not kill_orphan(Orphan(found.pid, found.command, started="0"))
    assert find_orphans(what.mark) == [found]
    stop.set()
    await task


async def test_kill_orphans_without_orphans_kills_nothing() -> None:
    assert (await kill_orphans(new_mark())).killed == ()
