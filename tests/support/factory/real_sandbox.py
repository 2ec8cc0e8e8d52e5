"""The real sandbox of this machine, for tests that need a working one."""

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.sandbox import Sandbox, SandboxUnavailable, choose_sandbox
from tests.services import bubblewrap
from tests.services.debian import Unavailable
from tests.support.factory.programs import OutputRecorder, run_program


def search_path() -> str:
    """Return a PATH with the sandbox tool; skip the test if there is none."""
    try:
        return bubblewrap.search_path()
    except Unavailable as reason:
        pytest.skip(str(reason))


async def a_sandbox(
    hidden: Path, *, minimum: Policy = "workspace", allow_hosts: Iterable[str] = ()
) -> Sandbox:
    """Return a working sandbox; skip the test if the kernel does not allow one."""
    try:
        return await choose_sandbox(
            minimum,
            environ={"PATH": search_path()},
            allow_hosts=allow_hosts,
            hidden=[hidden],
            readable=[Path(sys.base_prefix)],
        )
    except SandboxUnavailable as refused:
        pytest.skip(str(refused))


async def output_in(
    sandbox: Sandbox,
    program: Program,
    *,
    readable: Iterable[Path] = (),
    policy: Policy | None = None,
    reports: list[str] | None = None,
) -> list[str]:
    """Run a program in the sandbox and return its output: stdout, then stderr."""
    recorder = OutputRecorder()
    async with sandbox.confine(
        program,
        writable=[program.cwd],
        readable=readable,
        policy=policy,
        report=(reports if reports is not None else []).append,
    ) as confined:
        await run_program(confined, recorder)
    return [*recorder.out, *recorder.err]
