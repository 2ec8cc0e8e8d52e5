"""The real sandbox of this machine, for tests that need one that works."""

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.sandbox import Sandbox, SandboxUnavailable, choose_sandbox
from tests.services import bubblewrap
from tests.services.debian import Unavailable
from tests.support.factory.programs import Heard, ran


def search_path() -> str:
    """A PATH with the sandbox's tool on it; the test is skipped where there is none."""
    try:
        return bubblewrap.search_path()
    except Unavailable as why:
        pytest.skip(str(why))


async def a_sandbox(
    hidden: Path, *, least: Policy = "workspace", allow_hosts: Iterable[str] = ()
) -> Sandbox:
    """A sandbox that holds; the test is skipped on a machine whose kernel does not let it work."""
    try:
        return await choose_sandbox(
            least,
            environ={"PATH": search_path()},
            allow_hosts=allow_hosts,
            hidden=[hidden],
            readable=[Path(sys.base_prefix)],
        )
    except SandboxUnavailable as refused:
        pytest.skip(str(refused))


async def said_in(
    sandbox: Sandbox,
    program: Program,
    *,
    readable: Iterable[Path] = (),
    policy: Policy | None = None,
    told: list[str] | None = None,
) -> list[str]:
    """What a program prints in the sandbox, to its output and after that to its errors."""
    heard = Heard()
    async with sandbox.confine(
        program,
        writable=[program.cwd],
        readable=readable,
        policy=policy,
        report=(told if told is not None else []).append,
    ) as confined:
        await ran(confined, heard)
    return [*heard.out, *heard.err]
