"""Real programs: their environment and input, their output, and failures to start."""

import asyncio
import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from gigafactory.factory.process.orphans import find_orphans
from gigafactory.factory.process.process import LINES_AT_ONCE, CannotStart, ProcessLimits
from gigafactory.factory.process.spawn import EXTRA_INPUT
from tests.support.factory.programs import (
    PATH,
    OutputRecorder,
    program,
    python,
    run_program,
    set_on_output,
    shell,
)


async def test_program_output_is_read_line_by_line() -> None:
    ended, heard = await run_program(shell("echo one; echo two >&2; printf three; exit 3"))
    assert (heard.out, heard.err) == (["one", "three"], ["two"])
    assert (ended.exit_code, ended.reason, ended.lines_cut) == (3, "exited", 0)


async def test_other_runs_get_their_turn_between_very_many_lines() -> None:
    turns = 0

    async def other_run() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    lines_by_turn: Counter[int] = Counter()

    def count_line(_text: str) -> tuple[bytes, ...]:
        lines_by_turn[turns] += 1
        return ()

    other = asyncio.create_task(other_run())
    await run_program(shell("yes '' | head -n 200000"), OutputRecorder(count_line))
    other.cancel()
    assert lines_by_turn.total() == 200_000
    assert max(lines_by_turn.values()) <= 2 * LINES_AT_ONCE


async def test_program_sees_only_its_given_environment() -> None:
    what = program("/usr/bin/env", env={"ONLY": "this"})
    _, heard = await run_program(what)
    names = {line.partition("=")[0] for line in heard.out}
    assert names == {"ONLY", "AQ_RUN"}
    assert any(line.startswith(f"AQ_RUN={what.mark}") for line in heard.out)


async def test_program_runs_in_its_folder_and_its_own_session(tmp_path: Path) -> None:
    script = "import os; print(os.getcwd(), os.getpid() == os.getsid(0) == os.getpgrp())"
    _, heard = await run_program(python(script, cwd=tmp_path))
    assert heard.out[0].endswith(f"/{tmp_path.name} True")


async def test_stdin_is_written_and_closed() -> None:
    data = b"hello\n" * 100_000
    _, heard = await run_program(shell("wc -c", stdin=data))
    assert heard.out[0].strip() == str(len(data))


async def test_program_without_input_reads_end_of_file() -> None:
    ended, heard = await run_program(shell("cat; echo end"))
    assert heard.out == ["end"]
    assert ended.exit_code == 0


async def test_unread_stdin_does_not_block() -> None:
    ended, heard = await run_program(shell("echo done", stdin=b"x" * 10_000_000))
    assert (heard.out, ended.exit_code) == (["done"], 0)


async def test_program_that_closes_its_stdin_succeeds() -> None:
    ended, heard = await run_program(shell("exec 0<&-; echo closed", stdin=b"x" * 1_000_000))
    assert (heard.out, ended.exit_code) == (["closed"], 0)


async def test_replies_to_output_lines_reach_an_open_stdin() -> None:
    said = OutputRecorder(lambda line: [b"pong\n"] if line == "ping" else [b""])
    script = "echo ping; read answer; echo got $answer; cat; echo end"
    ended, heard = await run_program(shell(script, stdin_open=True), said)
    assert heard.out == ["ping", "got pong", "end"]
    assert ended.exit_code == 0


async def test_program_that_never_reads_its_replies_stalls() -> None:
    said = OutputRecorder(lambda _: [b"x" * 100_000])
    ended, heard = await run_program(
        shell("while :; do echo more; done", stdin_open=True),
        said,
        limits=ProcessLimits(wall_s=60, stall_s=0.3, grace_s=0.1),
    )
    assert ended.reason == "stalled"
    assert len(heard.out) < 100_000


async def test_extra_input_is_read_from_a_descriptor_and_not_in_the_command_line() -> None:
    script = 'cat "/dev/fd/$1"; tr "\\0" " " < /proc/$$/cmdline'
    what = program("/bin/sh", "-c", script, "sh", EXTRA_INPUT, extra_input=b"for you\n")
    _, heard = await run_program(what)
    assert heard.out[0] == "for you"
    assert "for you" not in heard.out[1]


async def test_program_that_closes_its_output_is_still_awaited() -> None:
    ended, _ = await run_program(shell("exec >&- 2>&-; sleep 0.1; exit 4"))
    assert (ended.exit_code, ended.reason) == (4, "exited")


async def test_program_killed_by_a_signal_reports_the_signal() -> None:
    ended, _ = await run_program(shell("kill -SEGV $$"))
    assert (ended.exit_code, ended.reason) == (-signal.SIGSEGV, "exited")


async def test_cpu_time_includes_children() -> None:
    burn = "import os\nwhile sum(os.times()[:2]) < 0.2: pass"
    ended, _ = await run_program(
        program("/bin/sh", "-c", '"$0" -I -c "$1"; true', sys.executable, burn)
    )
    assert ended.cpu_s >= 0.2
    assert ended.wall_s > 0


async def test_invalid_utf8_in_output_is_replaced() -> None:
    _, heard = await run_program(shell(r"printf 'a\377b\n'"))
    assert heard.out == ["a\ufffdb"]


@pytest.mark.parametrize("ends", ["with line ends", "without"])
async def test_flood_of_output_uses_little_memory(ends: str) -> None:
    size = 200 * 1024 * 1024
    word = b"x" * 1023 + (b"\n" if ends == "with line ends" else b"x")
    script = f"import os\nfor _ in range({size // 65536}): os.write(1, {word!r} * 64)"
    flood = Flood()
    tracemalloc.start()
    try:
        ended, _ = await run_program(python(script), flood)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ended.exit_code == 0
    assert peak < 20 * 1024 * 1024
    if ends == "without":
        assert (flood.chars, ended.lines_cut) == (1024 * 1024, 1)
    else:
        assert (flood.chars, ended.lines_cut) == (size - size // 1024, 0)


class Flood(OutputRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.chars = 0

    def on_line(self, text: str, *, stderr: bool) -> tuple[bytes, ...]:
        self.chars += len(text)
        return ()


async def test_exception_in_a_line_handler_ends_the_run_and_is_raised() -> None:
    def full(line: str) -> tuple[bytes, ...]:
        raise OSError(28, line)

    with pytest.raises(OSError, match="ready"):
        await run_program(
            shell("trap '' TERM INT; echo ready; while :; do sleep 60; done"), OutputRecorder(full)
        )


async def test_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    ready = asyncio.Event()
    what = shell("trap '' TERM INT; setsid sh -c 'echo ready; exec sleep 600' & wait")
    task = asyncio.ensure_future(run_program(what, OutputRecorder(set_on_output(ready))))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert find_orphans(what.mark) == []


def _script(folder: Path, text: str, mode: int = 0o755) -> str:
    file = folder / "tool"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


async def test_missing_program_on_path_is_reported() -> None:
    with pytest.raises(CannotStart, match="'no-such-tool': there is no such program on its PATH"):
        await run_program(program("no-such-tool", env={"PATH": PATH}))


async def test_missing_program_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"there is no such program$"):
        await run_program(program(str(tmp_path / "tool")))


async def test_non_executable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="it is not an executable file"):
        await run_program(program(_script(tmp_path, "#!/bin/sh\n", 0o644)))


async def test_missing_script_interpreter_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"the interpreter that the first line of .*tool names"):
        await run_program(program(_script(tmp_path, "#!/no/such/shell\n")))


async def test_file_that_is_neither_binary_nor_script_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="neither a binary for this machine nor a script"):
        await run_program(program(_script(tmp_path, "just text\n")))


async def test_missing_working_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"its folder '.*/gone' does not exist"):
        await run_program(shell("true", cwd=tmp_path / "gone"))


async def test_too_long_arguments_are_reported() -> None:
    with pytest.raises(CannotStart, match="limit; pass long texts"):
        await run_program(program("/bin/echo", "x" * 5_000_000))


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_invalid_characters_in_arguments_are_reported(word: str) -> None:
    with pytest.raises(CannotStart, match="environment is invalid"):
        await run_program(program("/bin/echo", word))


async def test_empty_command_is_reported() -> None:
    with pytest.raises(CannotStart, match="its command is empty"):
        await run_program(program())


def open_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def test_failed_start_leaves_no_descriptor_open() -> None:
    before = open_descriptors()
    for _ in range(5):
        with pytest.raises(CannotStart):
            await run_program(program("no-such-tool", stdin=b"x", extra_input=b"y"))
    assert open_descriptors() == before
