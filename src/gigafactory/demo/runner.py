"""Run the demo: three factory processes, a repo, the jobs, and a killed factory."""

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
    DemoMachine,
    demo_jobs,
)
from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.wire.budgets import BudgetDoc
from gigafactory.wire.jobs import JobFilter

AQ = "import sys; from gigafactory.cli.main import main; sys.exit(main())"
"""Runs `aq` wherever it is installed."""
ENDS_WITHIN_S = 10.0
CHECK_EVERY_S = 0.5
DEAD_FOR_S = 2.0
REPOS = "repos"
AT_WORK = frozenset({Stage.ASSIGNED, Stage.BUILDING})


class DemoFleet:
    """The factories of the demo, below one folder."""

    def __init__(self, folder: Path, url: str, token: str, *, seed: int) -> None:
        self._folder = folder
        self._url = url
        self._token = token
        self._seed = seed
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def run(self, *, once: bool) -> None:
        """Set up the fleet, submit the jobs, kill a factory, and continue until cancelled.

        With `once`, return when nothing more happens by itself.
        """
        repo = await asyncio.to_thread(create_repo, self._folder / REPOS / "shop")
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(AsyncClient(self._url, self._token))
            stack.push_async_callback(self._stop_all)
            for name, machine in FACTORIES.items():
                await self._enrol(admin, name)
                await asyncio.to_thread(write_tool, self._tools(name), machine)
                await self._start(name, machine)
            admin.product = STUDIO
            await admin.send(budgets.set_budget(STUDIO, BudgetDoc(ceiling_usd=CEILING)))
            for product, text in demo_jobs(self._seed, str(repo)):
                admin.product = product
                await admin.send(submissions.submit(parse_job_file(text.encode())))
            await self._kill_and_restart(admin)
            if not once:
                await asyncio.Event().wait()
            await wait_until(lambda: self._is_idle(admin))

    async def _enrol(self, admin: AsyncClient, name: str) -> None:
        invited = await admin.send(fleet.invite(["*"]))
        member = await admin.send(fleet.enroll(invited.secret, name))
        save_membership(
            DataDir.under(self._folder / name), FleetMembership(self._url, name, member.token)
        )

    def _tools(self, name: str) -> Path:
        return self._folder / name / "bin"

    async def _start(self, name: str, machine: DemoMachine) -> None:
        data = self._folder / name
        log = (data / "log").open("ab")
        environ = {**os.environ, "AQ_DATA": str(data), "HOME": str(self._folder)}
        environ["AQ_FACTORY_ROOTS"] = str(self._folder / REPOS)
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

    async def _kill_and_restart(self, admin: AsyncClient) -> None:
        await wait_until(lambda: self._is_at_work(admin, SURVIVOR))
        await asyncio.sleep(DEAD_FOR_S)
        victim = self._running.pop(VICTIM)
        victim.kill()
        await victim.wait()
        await asyncio.sleep(DEAD_FOR_S)
        await self._start(VICTIM, FACTORIES[VICTIM])

    async def _is_at_work(self, admin: AsyncClient, name: str) -> bool:
        admin.product = PRODUCT
        return (await admin.send(jobs.get(name))).stage == Stage.BUILDING

    async def _is_idle(self, admin: AsyncClient) -> bool:
        """Return whether all waiting jobs wait for people or budget."""
        admin.product = None
        page = await admin.send(jobs.find(JobFilter(limit=100)))
        leaves = [job for job in page.jobs if job.kind != "composite"]
        return not any(
            job.stage in AT_WORK
            or (job.stage == Stage.QUEUED and not job.flags and job.product_id != STUDIO)
            for job in leaves
        )

    async def _stop_all(self) -> None:
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


async def wait_until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `check` returns true."""
    while True:
        if await check():
            return
        await asyncio.sleep(CHECK_EVERY_S)


def write_tool(folder: Path, machine: DemoMachine) -> None:
    """Install the tool of a machine where only that machine finds it."""
    folder.mkdir(parents=True)
    script = folder / machine.tool
    script.write_text(f"#!/bin/sh\necho '{machine.says}'\n")
    script.chmod(0o755)


def create_repo(folder: Path) -> Path:
    """Create a bare repo with one commit and return its path."""
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
