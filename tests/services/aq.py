"""The `aq` program as users run it, and a separate coordinator for a suite."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.fork_server import fork_server

AQ = str(Path(sys.executable).with_name("aq"))
STOP_WITHIN_S = 20.0
END_WITHIN_S = 60.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment for a command, without the machine's own `aq` settings."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("AQ_")}
    return ours | {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "NO_COLOR": "1"} | more


@dataclass(frozen=True)
class Ran:
    """The result of a finished command."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        """Return the output, parsed as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """A user's terminal in a folder."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def aq(self, *typed: str, stdin: str | bytes = "", **more: str) -> Ran:
        """Run an `aq` command to its end and return its result."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        environ = environment(self.folder, **self.environ, **more)
        if "PYTHONPATH" in self.environ | more:
            # A fork inherits the loaded modules, so another PYTHONPATH needs a new interpreter.
            done = subprocess.run(
                [AQ, *typed],
                cwd=self.folder,
                env=environ,
                input=given,
                capture_output=True,
                check=False,
                timeout=END_WITHIN_S,
            )
            return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        code, out, err = fork_server().run(
            *typed, folder=self.folder, environ=environ, stdin=given, within_s=END_WITHIN_S
        )
        return Ran(code, out.decode(), err.decode())

    @contextmanager
    def start(self, *typed: str) -> Iterator[subprocess.Popen[str]]:
        """Start an `aq` command in the background and stop it when the block ends."""
        with subprocess.Popen(
            [AQ, *typed],
            cwd=self.folder,
            env=environment(self.folder, **self.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.communicate(timeout=STOP_WITHIN_S)
                finally:
                    process.kill()


@dataclass(frozen=True)
class Served:
    """A running coordinator."""

    url: str
    token: str
    process: subprocess.Popen[str]


@contextmanager
def serving(shell: Shell, *flags: str) -> Iterator[Served]:
    """Run a coordinator on a free port, with the shell's settings, until the block ends."""
    with shell.start("serve", "--json", "--port", "0", *flags) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            raise AssertionError(process.stderr.read())
        data = json.loads(line)
        yield Served(data["url"], Path(data["tokenFile"]).read_text().strip(), process)
