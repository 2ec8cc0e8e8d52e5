"""One showing of the demo: three factories as processes, a repo, the jobs, and a death on stage."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from gigafactory.client import fleet, jobs, submissions
from gigafactory.client import products as budgets
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.demo.script import (
    CEILING,
    FACTORIES,
    PRODUCT,
    STUDIO,
    SURVIVOR,
    VICTIM,
    Machine,
    plays,
)
from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.wire.jobs import JobFilter

AQ = "import sys; from gigafactory.cli.main import main; sys.exit(main())"
"""The command that people type, wherever it is installed."""
ENDS_WITHIN_S = 10.0
LOOK_EVERY_S = 0.5
DEAD_FOR_S = 2.0
AT_WORK = frozenset({Stage.ASSIGNED, Stage.BUILDING})


class Showing:
    """The fleet of the demo, below one folder."""

    def __init__(self, folder: Path, url: str, token: str, *, seed: int) -> None:
        """Play for the coordinator at this address."""
        self._folder = folder
        self._url = url
        self._token = token
        self._seed = seed
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def play(self, *, once: bool) -> None:
        """Set everything up, hand the jobs in, and kill a factory; then go on until cancelled.

        With `once`, end when nothing more happens by itself.
        """
        repo = await asyncio.to_thread(a_repo, self._folder / "shop")
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(AsyncClient(self._url, self._token))
            stack.push_async_callback(self._end_all)
            for name, machine in FACTORIES.items():
                await self._enrol(admin, name)
                await asyncio.to_thread(a_tool, self._tools(name), machine)
                await self._start(name, machine)
            admin.product = STUDIO
            await admin.send(budgets.set_budget(STUDIO, CEILING))
            for product, text in plays(self._seed, str(repo)):
                admin.product = product
                await admin.send(submissions.submit(parse_job_file(text.encode())))
            await self._murder(admin)
            if not once:
                await asyncio.Event().wait()
            await until(lambda: self._rests(admin))

    async def _enrol(self, admin: AsyncClient, name: str) -> None:
        invited = await admin.send(fleet.invite(["*"]))
        member = await admin.send(fleet.enroll(invited.secret, name))
        save_membership(
            DataDir.under(self._folder / name), FleetMembership(self._url, name, member.token)
        )

    def _tools(self, name: str) -> Path:
        return self._folder / name / "bin"

    async def _start(self, name: str, machine: Machine) -> None:
        data = self._folder / name
        log = (data / "log").open("ab")
        environ = {**os.environ, "AQ_DATA": str(data), "HOME": str(self._folder)}
        environ["PATH"] = f"{self._tools(name)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        try:
            self._running[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", AQ, "factory", "run"),
                *("--slots", str(machine.slots), "--label", machine.label),
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            log.close()

    async def _murder(self, admin: AsyncClient) -> None:
        """Kill a factory in the middle of its work, and start it again: nothing is lost."""
        await until(lambda: self._is_at_work(admin, SURVIVOR))
        await asyncio.sleep(DEAD_FOR_S)
        victim = self._running.pop(VICTIM)
        victim.kill()
        await victim.wait()
        await asyncio.sleep(DEAD_FOR_S)
        await self._start(VICTIM, FACTORIES[VICTIM])

    async def _is_at_work(self, admin: AsyncClient, name: str) -> bool:
        admin.product = PRODUCT
        return (await admin.send(jobs.get(name))).stage == Stage.BUILDING

    async def _rests(self, admin: AsyncClient) -> bool:
        """Whether nothing more happens by itself: what waits, waits for people or for money."""
        admin.product = None
        found = await admin.send(jobs.find(JobFilter(limit=100)))
        leaves = [job for job in found.jobs if job.kind != "composite"]
        return not any(
            job.stage in AT_WORK
            or (job.stage == Stage.QUEUED and not job.flags and job.product_id != STUDIO)
            for job in leaves
        )

    async def _end_all(self) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                async with asyncio.timeout(ENDS_WITHIN_S):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    while True:
        if await look():
            return
        await asyncio.sleep(LOOK_EVERY_S)


def a_tool(folder: Path, machine: Machine) -> None:
    """Put the tool of a machine where only that one finds it."""
    folder.mkdir(parents=True)
    script = folder / machine.tool
    script.write_text(f"#!/bin/sh\necho '{machine.says}'\n")
    script.chmod(0o755)


def a_repo(folder: Path) -> Path:
    """A remote with one commit, as a team would have it: several push to it at once."""
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# The shop\n\nThis shop sells what others make.\n")
    who = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
    remote = folder.with_suffix(".git")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*who, "commit", "-qm", "The shop"),
        ("clone", "-q", "--bare", ".", str(remote)),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return remote
