"""A person with roadmaps: submits, approves phases, changes, cancels and requeues them."""

import asyncio
import random
from collections.abc import Sequence

from msgspec.structs import replace

from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.manifest.manifest import Child, JobBudget, JobFile, Manifest, ReviewPolicy
from tests.simulation.network import Lost
from tests.simulation.people import Person, job_file

AUTO = ReviewPolicy(mode="auto")
PLAN = b"- {name: planned-1, phase: 1, body: x}\n- {name: planned-2, phase: 2, body: x}\n"
"""The plan of every planner."""


class RoadmapOwner:
    """A person who manages composites."""

    def __init__(self, person: Person, rng: random.Random) -> None:
        """Act through this person."""
        self._person = person
        self._rng = rng
        self._extended = 0

    async def manage(self, within_s: float) -> None:
        """Submit one or two roadmaps and act on them at random."""
        for number in range(self._rng.randint(1, 2)):
            await self._person.submit([roadmap_file(self._rng, f"roadmap-{number}")])
            await asyncio.sleep(self._rng.uniform(0.0, within_s / 4))
        # Some owners act often, so that cancels race with the grants of children.
        interval_s = self._rng.choice((5.0, 5.0, 1.0))
        while True:
            await asyncio.sleep(self._rng.uniform(0.2 * interval_s, interval_s))
            for job in await self.composites():
                await self._act_on(job, 0.12 if interval_s > 1.0 else 0.5)

    async def composites(self) -> Sequence[Job]:
        """Return the composites that allow an action."""
        jobs = await self._person.jobs(*Stage)
        return [job for job in jobs if job.composite]

    async def _act_on(self, job: Job, cancel_share: float) -> None:
        rng = self._rng
        if job.finished:
            if job.stage is not Stage.SHIPPED and rng.random() < cancel_share + 0.1:
                await self._person.act(job.id, "requeue", ActionRequest(reason="after all"))
        elif rng.random() < cancel_share:
            await self._person.act(job.id, "cancel", ActionRequest(reason="no more of it"))
        elif rng.random() < 0.15:
            await self._extend(job)
        else:
            await self.approve_phase(job)

    async def approve_phase(self, job: Job) -> None:
        """Approve the phase that waits for approval."""
        if job.roadmap is not None and job.roadmap.asked is not None:
            await self._person.act(job.id, "approve", ActionRequest(reason="go on"))

    async def _extend(self, job: Job) -> None:
        self._extended += 1
        more = child_job(self._rng, f"{job.name}-more-{self._extended}")
        name = f"{job.name}-more-{self._rng.randint(0, 2)}"
        files = [JobFile(replace(more.manifest, name=name), more.body)]
        try:
            await self._person.ask(
                "add-children",
                lambda c, by: c.submissions.add_children(by, job.id, files),
                job=job.id,
            )
        except (Lost, Refused):
            return

    async def finish(self) -> None:
        """Approve, ship and requeue until the roadmaps that still run can end."""
        jobs = {job.id: job for job in await self._person.jobs(*Stage)}
        for job in jobs.values():
            parent = jobs.get(job.parent_id or "")
            if job.composite:
                await self.approve_phase(job)
            if parent is None or parent.finished:
                continue
            if job.stage is Stage.REVIEW:
                await self._person.act(
                    job.id, "approve", ActionRequest(reason="fine", commit=job.head)
                )
            elif job.stage is Stage.TESTING and job.ship is None:
                await self._person.act(
                    job.id, "ship", ActionRequest(reason="fine", commit=job.head)
                )
            elif job.finished and job.stage is not Stage.SHIPPED and not job.superseded_by:
                await self._person.act(job.id, "requeue", ActionRequest(reason="once more"))

    async def fetch_dag(self, job: Job) -> JobDag | None:
        """Return the composite with its children and rollup; None if refused or lost."""
        try:
            return await self._person.ask(
                "dag", lambda c, by: c.dags.get(by, job.id), keyed=False, job=job.id
            )
        except (Lost, Refused):
            return None


def roadmap_file(rng: random.Random, tag: str) -> JobFile:
    """Return a composite with a few children, some nested, or a goal with a planner."""
    goal = rng.random() < 0.25
    manifest = Manifest(
        name=tag,
        title=tag,
        kind="composite",
        profile="planner" if goal else None,
        verify="make test" if rng.random() < 0.4 else None,
        review_policy=AUTO if rng.random() < 0.5 else None,
        budget=JobBudget(usd_nanos=rng.randint(1, 4)) if rng.random() < 0.35 else None,
        children=() if goal else tuple(_children(rng, tag)),
    )
    return JobFile(manifest, f"# {tag}\n")


def _children(rng: random.Random, tag: str) -> Sequence[Child]:
    children = [child_job(rng, f"{tag}-{number}") for number in range(rng.randint(2, 4))]
    if rng.random() < 0.3:
        below = tuple(child_job(rng, f"{tag}-deep-{number}") for number in range(2))
        inner = Manifest(
            name=f"{tag}-inner", kind="composite", phase=1, review_policy=AUTO, children=below
        )
        children.append(Child(inner, f"# {tag} inner\n"))
    if rng.random() < 0.4:
        first, second = children[0].manifest, children[1].manifest
        if (second.phase or 0) >= (first.phase or 9):
            deps = (first.name or "",)
            children[1] = Child(replace(second, deps=deps), children[1].body)
    return children


def child_job(rng: random.Random, tag: str) -> Child:
    """Return a child job of a roadmap."""
    file = job_file(rng, tag)
    manifest = replace(
        file.manifest,
        name=tag,
        phase=rng.choice((None, 1, 1, 2, 3)),
        capabilities=(),
        deps=(),
        lock=None,
        schedule=None,
        delay=None,
        idempotency_key=None,
        ship="none" if rng.random() < 0.6 else None,
        ship_policy="auto" if rng.random() < 0.6 else None,
    )
    return Child(manifest, file.body)
