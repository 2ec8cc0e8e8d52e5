"""Probes of programs that hang, flood their output, fail or print garbage."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gigafactory.factory.process.probe import (
    ProbeResult,
    ProgramProbe,
    probe_environment,
    run_probe,
)
from tests.support.factory.fake_tools import FAILS, FLOODS, GARBAGE, HANGS, program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

SOON_S = 0.2
AMPLE_S = 60.0


async def answer(folder: Path, body: str, *, limit_s: float = AMPLE_S) -> ProbeResult:
    file = program(folder, "tool", body)
    return await run_probe((str(file),), env=probe_environment({}), limit_s=limit_s)


async def test_probe_returns_stdout_before_stderr(tmp_path: Path) -> None:
    heard = await answer(tmp_path, "echo late >&2; echo 1.2.3")
    assert heard == ProbeResult(text="1.2.3\n\nlate\n", exit_code=0)


async def test_hanging_program_is_given_up_after_the_limit(tmp_path: Path) -> None:
    heard = await answer(tmp_path, HANGS, limit_s=SOON_S)
    assert heard == ProbeResult(text="\n", problem="did not answer within 0.2 s")


async def test_program_that_floods_output_is_cut_off(tmp_path: Path) -> None:
    heard = await answer(tmp_path, FLOODS)
    assert heard.problem == "printed more than 262144 bytes"
    assert len(heard.text) == 262144 + 1


async def test_invalid_utf8_output_is_decoded_with_replacements(tmp_path: Path) -> None:
    heard = await answer(tmp_path, GARBAGE)
    assert heard.exit_code == 0
    assert heard.text.startswith("\ufffd\ufffd\x01")


async def test_failed_program_is_quoted_with_its_exit_code(tmp_path: Path) -> None:
    heard = await answer(tmp_path, FAILS)
    assert heard.problem == "ended with exit code 3: cannot find the runtime"


async def test_killed_program_names_its_signal(tmp_path: Path) -> None:
    assert (await answer(tmp_path, "kill -9 $$")).problem == "died of signal 9"


async def test_program_that_cannot_start_returns_a_problem(tmp_path: Path) -> None:
    absent = await run_probe((str(tmp_path / "absent"),), env={})
    assert absent.problem is not None
    assert absent.problem.startswith("could not be started")
    nul = await run_probe(("a\0b",), env={})
    assert nul.problem == "could not be started: embedded null byte"


async def test_program_that_leaves_a_child_behind_still_answers(
    tmp_path: Path,
) -> None:
    heard = await answer(tmp_path, "echo 1.2.3; /bin/sleep 600 &")
    assert heard == ProbeResult(text="1.2.3\n\n", exit_code=0)


async def test_cancelled_probe_leaves_no_process_behind(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(fifo, os.O_WRONLY)
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
    )
    file = program(tmp_path, "tool", f"exec 9>'{fifo}'; /bin/sleep 600 & echo up >&9; wait")
    question = asyncio.create_task(run_probe((str(file),), env={}, limit_s=AMPLE_S))
    async with asyncio.timeout(AMPLE_S):
        assert await stream.readline() == b"up\n"
        os.close(writing)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        assert await stream.read() == b"", "the pipe ends when no process holds it"
    transport.close()


async def test_probe_environment_has_no_secrets(tmp_path: Path) -> None:
    file = program(tmp_path, "tool", "export -p; read line || echo nobody writes")
    environ = {
        "PATH": "/bin",
        "AQ_FLEET_TOKEN": "hush",
        "ANTHROPIC_API_KEY": "hush",
        "NODE_OPTIONS": "hush",
    }
    heard = await run_probe((str(file),), env=probe_environment(environ))
    assert "/bin" in heard.text
    assert "hush" not in heard.text
    assert "nobody writes" in heard.text


async def test_no_program_is_started_after_the_deadline(tmp_path: Path) -> None:
    file = program(tmp_path, "tool", "echo 1.2.3")
    probe = ProgramProbe({}, at_once=1, total_s=0.0)
    assert await probe.run(str(file)) == ProbeResult(
        problem="was not run: the time for detection was up"
    )


async def test_probe_queued_behind_a_hanging_program_still_runs(tmp_path: Path) -> None:
    slow, quick = program(tmp_path, "slow", HANGS), program(tmp_path, "quick", "echo 1.2.3")
    probe = ProgramProbe({}, at_once=1, total_s=AMPLE_S)
    heard = await asyncio.gather(
        probe.run(str(slow), limit_s=SOON_S), probe.run(str(quick), limit_s=AMPLE_S)
    )
    assert [each.exit_code for each in heard] == [None, 0]
