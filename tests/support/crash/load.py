"""Load: people who hand in jobs and factories that work on them, until all of it is done."""

import asyncio
from collections.abc import Sequence

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.job import Stage
from tests.support.crash.history_checker import everything
from tests.support.crash.retrying_client import Caller, Factory, enrolled

SUBMITTERS = 4
TERMS = {"verify": "true", "reviewPolicy": "auto"}
ENDS = {Stage.SHIPPED, Stage.TESTING}


class Crowd:
    """So many jobs for so many factories; half of the jobs are shipped, half wait to be."""

    def __init__(self, admin: Caller, *, jobs: int, factories: int) -> None:
        self._admin = admin
        self._names = [f"job-{number}" for number in range(jobs)]
        self._size = factories
        self._waiting = iter(self._names)
        self.factories: Sequence[Factory] = ()
        self.done: set[str] = set()

    @property
    def finished(self) -> bool:
        """Whether every job has come as far as it was meant to."""
        return len(self.done) == len(self._names)

    async def gather(self) -> None:
        """Enroll the factories."""
        ids = [f"mac-{number}" for number in range(self._size)]
        self.factories = await asyncio.gather(*(enrolled(self._admin, each) for each in ids))

    async def work(self) -> None:
        """Hand everything in, and do it."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SUBMITTERS):
                tasks.create_task(self.hand_in())
            for factory in self.factories:
                tasks.create_task(self._claim(factory))

    async def hand_in(self) -> None:
        """Hand in jobs until there are none left."""
        for name in self._waiting:
            policy = "auto" if int(name.partition("-")[2]) % 2 else "manual"
            await self._admin.submit(name, **TERMS, shipPolicy=policy)

    async def _claim(self, factory: Factory) -> None:
        while not self.finished:
            answer = await factory.ask("POST", "/claim", factory.mine | {"wait": 0.5})
            if answer.require() is None:
                await factory.beat()
            else:
                await self.do(factory, answer.body)

    async def do(self, factory: Factory, grant: dict[str, object]) -> None:
        """Run a job, or ship it."""
        if grant["step"] == "ship":
            done = await factory.report(grant, stage="shipped")
        else:
            (await factory.report(grant, stage="building")).require()
            verify = {"passed": True}
            done = await factory.report(grant, stage="testing", verify=verify, result="ok")
        job = done.require()
        if job["stage"] == "shipped" or int(job["name"].partition("-")[2]) % 2 == 0:
            self.done.add(job["name"])

    async def faults(self, store: Store) -> list[str]:
        """What is wrong with the jobs in the end: each is there once, and came to its end once."""
        entries, jobs = await everything(store)
        told = [f"{job.name} ended {job.stage}" for job in jobs if job.stage not in ENDS]
        if sorted(job.name for job in jobs) != sorted(self._names):
            told.append(f"there are {len(jobs)} jobs for {len(self._names)} submissions")
        names = {job.id: job.name for job in jobs}
        shipped = [names[e.event.job_id or ""] for e in entries if e.event.type == "shipped"]
        if sorted(shipped) != sorted(self._names[1::2]):
            told.append(f"shipped were {sorted(shipped)}")
        return told
