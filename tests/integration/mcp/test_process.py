"""`aq mcp` as a process: its stdout, its end, and its message without the extra."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.services.aq import AQ, Shell, environment


def asking(*messages: dict[str, object]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


HELLO: dict[str, object] = {
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "old-client", "version": "1"},
    },
}


def test_stdout_has_only_the_protocol_and_stdin_ends_the_server(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"AQ_FLEET_API": "http://127.0.0.1:1"})
    ran = shell.aq("mcp", stdin="this is no JSON\n" + asking(HELLO))
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in ran.out.splitlines()]
    answer = next(line for line in lines if line.get("id") == 1)
    assert answer["result"]["serverInfo"]["name"] == "gigafactory"
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("with_", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_server_at_once_without_output(
    tmp_path: Path, with_: signal.Signals
) -> None:
    with subprocess.Popen(
        [AQ, "mcp"],
        env=environment(tmp_path, AQ_FLEET_API="http://127.0.0.1:1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(asking(HELLO))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(with_)
        assert process.wait(timeout=20) == -with_
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_missing_mcp_extra_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp").mkdir()
    broken = "raise ModuleNotFoundError('no module', name='mcp')"
    (tmp_path / "mcp" / "__init__.py").write_text(broken)
    ran = Shell(tmp_path, {"PYTHONPATH": str(tmp_path)}).aq("mcp")
    assert (ran.code, ran.out) == (5, "")
    assert "pip install 'gigafactory[mcp]'" in ran.err
