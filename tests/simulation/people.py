"""Simulated people: submit, review, ship and operate at random, and retry lost requests."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.manifest.manifest import JobFile, Manifest, Retry, ReviewPolicy
from gigafactory.domain.tenancy.access import Caller
from tests.simulation.network import Lost, Network

Value = TypeVar("Value")

NAMES = ("alpha", "beta", "gamma", "delta", "omega")
UNKNOWN = "has:nothing-like-it"


@dataclass
class Person:
    """A person with a token, whose actions are drawn from the seed."""

    name: str
    secret: str
    product: str
    network: Network
    rng: random.Random
    requests: int = 0

    async def ask(
        self,
        verb: str,
        do: Callable[[Coordinator, Caller], Awaitable[Value]],
        *,
        tries: int = 5,
        keyed: bool = True,
        **request: object,
    ) -> Value:
        """Send a request with the same key until a response arrives.

        Raises Lost after `tries` attempts without a response, and refusals of the coordinator.
        """
        self.requests += 1
        key = f"{self.name}/{self.requests}" if keyed else None
        while True:
            try:
                return await self.network.call(
                    f"user:{self.name}",
                    verb,
                    do,
                    secret=self.secret,
                    key=key,
                    product=self.product,
                    request=request,
                )
            except (Lost, Unavailable):
                tries -= 1
                if tries <= 0:
                    raise Lost from None
                await asyncio.sleep(self.rng.uniform(0.1, 2.0))

    async def resume_with_key(self, key: str, target: str) -> None:
        """Resume a product with this key."""
        await self.network.call(
            f"user:{self.name}",
            "resume",
            lambda c, by: c.halt_switches.set_halted(by, target, halted=False),
            secret=self.secret,
            key=key,
            product=self.product,
            request={"target": target},
        )

    async def act(self, job_id: str, action: str, action_request: ActionRequest) -> Job | None:
        """Perform an action on a job; return None if it was refused or lost."""
        try:
            return await self.ask(
                action,
                lambda c, by: c.actions.act(by, job_id, action, action_request),
                job=job_id,
                action_request=action_request,
            )
        except (Lost, Refused):
            return None

    async def jobs(self, *stages: Stage) -> Sequence[Job]:
        """Return the jobs in some stages."""
        query = JobQuery(stages=stages, limit=50)
        try:
            return await self.ask("find", lambda c, by: c.jobs.find(by, query), keyed=False)
        except (Lost, Refused):
            return ()

    async def submit(self, files: Sequence[JobFile]) -> None:
        """Submit job files; a retry changes nothing."""
        try:
            await self.ask("submit", lambda c, by: c.submissions.submit(by, files), files=files)
        except (Lost, Refused):
            return

    async def submit_some(self, count: int, within_s: float) -> None:
        """Make several submissions over some time."""
        for number in range(count):
            batch = job_batch if number else contended_batch
            await self.submit(batch(self.rng, f"{self.name}-{number}"))
            await asyncio.sleep(self.rng.uniform(0.0, 1.5) * within_s / count)

    async def review(self) -> None:
        """Approve, ship or reject the jobs that wait for a decision."""
        while True:
            await asyncio.sleep(self.rng.uniform(2.0, 7.0))
            for job in await self.jobs(Stage.REVIEW, Stage.TESTING):
                await self._decide(job)

    async def _decide(self, job: Job) -> None:
        rng = self.rng
        default = "approve" if job.stage is Stage.REVIEW else "ship"
        action = default if rng.random() < 0.75 else rng.choice(("reject", "request-changes"))
        commit = job.head if rng.random() < 0.9 else "0000.0"
        decision = self.act(job.id, action, ActionRequest(reason="so it should be", commit=commit))
        if rng.random() < 0.35:
            tag = f"{self.name}-after-{self.requests}"
            await asyncio.gather(decision, self.submit([dependent_job(rng, tag, job.name)]))
        else:
            await decision

    async def operate(self) -> None:
        """Perform random operator actions on random jobs."""
        actions = ("cancel", "promote", "preempt", "release", "requeue", "requeue", "explain")
        while True:
            await asyncio.sleep(self.rng.uniform(3.0, 9.0))
            jobs = await self.jobs()
            if not jobs:
                continue
            job = self.rng.choice(jobs)
            action = self.rng.choice(actions)
            if action == "explain":
                await self._explain(job)
            else:
                await self.act(
                    job.id, action, ActionRequest(reason="why not", fresh=self.rng.random() < 0.3)
                )

    async def _explain(self, job: Job) -> None:
        try:
            await self.ask("explain", lambda c, _: c.jobs.explain(job), keyed=False)
        except (Lost, Refused):
            return


def contended_batch(rng: random.Random, tag: str) -> list[JobFile]:
    """Return jobs that compete for the same lock or engine."""
    lock = rng.choice((None, "main"))
    files = (job_file(rng, f"{tag}-{number}") for number in range(rng.randint(2, 4)))
    return [
        JobFile(
            replace(
                file.manifest,
                name=None,
                deps=(),
                capabilities=(),
                lock=lock,
                engine=rng.choice((None, "claude", "codex", "codex")),
            ),
            file.body,
        )
        for file in files
    ]


def dependent_job(rng: random.Random, tag: str, name: str) -> JobFile:
    """Return a job that depends on another that may end at this moment."""
    file = job_file(rng, tag)
    manifest = replace(file.manifest, name=None, deps=(name,), schedule=None, idempotency_key=None)
    return JobFile(manifest, file.body)


def job_batch(rng: random.Random, tag: str) -> list[JobFile]:
    """Return one to three jobs; later ones may depend on earlier ones."""
    size = rng.choice((1, 1, 1, 2, 3))
    return [job_file(rng, f"{tag}-{number}") for number in range(size)]


def job_file(rng: random.Random, tag: str) -> JobFile:
    """Return a job with random settings and a unique body."""
    verified = rng.random() < 0.4
    auto = verified and rng.random() < 0.6
    manifest = Manifest(
        name=f"{rng.choice(NAMES)}" if rng.random() < 0.8 else None,
        title=tag,
        engine=rng.choice((None, "claude", "claude", "codex")),
        capabilities=rng.choice(((), (), (), ("has:xcode",), (UNKNOWN,))),
        lock="main" if rng.random() < 0.4 else None,
        deps=tuple(rng.sample(NAMES, 1)) if rng.random() < 0.3 else (),
        deps_mode="soft" if rng.random() < 0.3 else None,
        on_dep_failure="fail" if rng.random() < 0.3 else None,
        retry=Retry(
            max=rng.randint(0, 2),
            backoff=timedelta(seconds=rng.randint(1, 4)),
            on=("timeout", "crash", "verify_failed", "setup_failed", "overloaded"),
        ),
        verify="make test" if verified else None,
        review_policy=ReviewPolicy(mode="auto") if auto else None,
        ship="none" if rng.random() < 0.15 else None,
        ship_policy="auto" if auto and rng.random() < 0.7 else None,
        priority=rng.choice((None, None, "high", "low", "critical")),
        idempotency_key=f"key-{rng.randint(1, 3)}" if rng.random() < 0.35 else None,
        schedule="* * * * *" if rng.random() < 0.08 else None,
        delay=timedelta(seconds=rng.randint(1, 8)) if rng.random() < 0.1 else None,
    )
    return JobFile(manifest, f"# {tag}\n")
