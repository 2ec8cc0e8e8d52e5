"""Load: clients that submit jobs and factories that run them until all are done."""

import asyncio
from collections.abc import Sequence

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.job import Stage
from tests.support.crash.history_checker import read_store
from tests.support.crash.retrying_client import Factory, RetryingClient, enroll_factory

SUBMITTERS = 4
TERMS = {"verify": "true", "reviewPolicy": "auto"}
ENDS = {Stage.SHIPPED, Stage.TESTING}


class Load:
    """A number of jobs and the factories that run them; every second job is also shipped."""

    def __init__(self, admin: RetryingClient, *, jobs: int, factories: int) -> None:
        self._admin = admin
        self._names = [f"job-{number}" for number in range(jobs)]
        self._size = factories
        self._waiting = iter(self._names)
        self.factories: Sequence[Factory] = ()
        self.done: set[str] = set()

    @property
    def finished(self) -> bool:
        """Return whether every job has reached its end."""
        return len(self.done) == len(self._names)

    async def enroll_factories(self) -> None:
        """Enroll the factories."""
        ids = [f"mac-{number}" for number in range(self._size)]
        self.factories = await asyncio.gather(*(enroll_factory(self._admin, each) for each in ids))

    async def work(self) -> None:
        """Submit and run all jobs."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SUBMITTERS):
                tasks.create_task(self.submit_jobs())
            for factory in self.factories:
                tasks.create_task(self._claim(factory))

    async def submit_jobs(self) -> None:
        """Submit jobs until none is left."""
        for name in self._waiting:
            policy = "auto" if int(name.partition("-")[2]) % 2 else "manual"
            await self._admin.submit(name, **TERMS, shipPolicy=policy)

    async def _claim(self, factory: Factory) -> None:
        while not self.finished:
            answer = await factory.ask("POST", "/claim", factory.identity | {"wait": 0.5})
            if answer.require() is None:
                await factory.beat()
            else:
                await self.run_job(factory, answer.body)

    async def run_job(self, factory: Factory, grant: dict[str, object]) -> None:
        """Run or ship a job."""
        if grant["step"] == "ship":
            done = await factory.report(grant, stage="shipped")
        else:
            (await factory.report(grant, stage="building")).require()
            verify = {"passed": True}
            done = await factory.report(grant, stage="testing", verify=verify, result="ok")
        job = done.require()
        if job["stage"] == "shipped" or int(job["name"].partition("-")[2]) % 2 == 0:
            self.done.add(job["name"])

    async def violations(self, store: Store) -> list[str]:
        """Return all violations at the end: every job must exist once and end once."""
        entries, jobs = await read_store(store)
        violations = [f"{job.name} ended {job.stage}" for job in jobs if job.stage not in ENDS]
        if sorted(job.name for job in jobs) != sorted(self._names):
            violations.append(f"there are {len(jobs)} jobs for {len(self._names)} submissions")
        names = {job.id: job.name for job in jobs}
        shipped = [names[e.event.job_id or ""] for e in entries if e.event.type == "shipped"]
        if sorted(shipped) != sorted(self._names[1::2]):
            violations.append(f"shipped were {sorted(shipped)}")
        return violations
