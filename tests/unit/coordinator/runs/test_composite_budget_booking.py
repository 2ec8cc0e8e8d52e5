"""Budgets of composites: a report books, and no child starts once the budget is exhausted."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.errors import Fenced
from gigafactory.domain.job.artifact import ArtifactUpload
from gigafactory.domain.job.job import Job, Result, Stage
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.manifest.job_file import parse_json_job
from tests.support.builders import after
from tests.support.memory_coordinator import MAC
from tests.unit.coordinator.dispatch.test_grants import ANN, Shop
from tests.unit.coordinator.runs.test_budget_booking import USD, claimed, using


class Works(Shop):
    """A coordinator with a composite that has a budget."""

    async def with_roadmap(
        self, *children: Mapping[str, object], **manifest: object
    ) -> Coordinator:
        """Start a coordinator with mac-1 and a composite of these children."""
        fleet = await self.with_factory()
        said = {"name": "top", "kind": "composite", "children": list(children)}
        file = parse_json_job({"manifest": said | manifest, "body": "All of it."})
        await fleet.submissions.submit(ANN, [file])
        await fleet.index.catch_up()
        return fleet

    async def ceiling(self, name: str = "top") -> Ceiling:
        found = await self.store.record(Ceiling, (await self.job(name)).id)
        assert found is not None
        return found

    async def job(self, name: str) -> Job:
        owner = await self.store.key_owners({f"name/notes/{name}"})
        job = await self.store.job(owner[f"name/notes/{name}"])
        assert job is not None
        return job

    async def events(self, name: str) -> list[str]:
        return [event.type for event in await self.store.events((await self.job(name)).id)]


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def a_leaf(name: str, **manifest: object) -> dict[str, object]:
    return {"name": name, "engine": "claude", "body": "Please.", **manifest}


TEN = {"usd": 10}


async def test_spending_of_children_is_booked_on_their_composite(works: Works) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), a_leaf("b"), budget=TEN)
    first, second = await claimed(fleet), await claimed(fleet)
    await fleet.reports.report(MAC, using(first, 3 * USD))
    await fleet.reports.report(MAC, using(second, 2 * USD))
    await fleet.reports.report(MAC, using(first, 4 * USD, stage=None))
    await fleet.reports.report(MAC, using(first, USD, stage=None))
    assert (await works.ceiling()).spent_nano_usd == 6 * USD
    result = (await fleet.dags.get(ANN, "top")).rollup
    assert (result.cost_nano_usd, result.ceiling_nano_usd) == (3 * USD, 10 * USD)


async def test_exhausted_composite_grants_nothing_and_preempts_its_children(
    works: Works,
) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), a_leaf("b"), a_leaf("c"), budget=TEN)
    first, second = await claimed(fleet), await claimed(fleet)
    await fleet.reports.report(MAC, using(first, 10 * USD))
    assert await fleet.claims.claim(MAC, "mac-1", most=2) == []
    assert (await works.job("top")).over_budget
    await fleet.index.catch_up()
    await fleet.composites.step()
    await fleet.index.catch_up()
    asked = {command.job_id for command in fleet.factories.commands("mac-1")}
    assert asked == {first.job.id, second.job.id}
    back = using(second, 2 * USD, stage=Stage.QUEUED, result=Result.PREEMPTED, reason="stopped")
    await fleet.reports.report(MAC, back)
    assert await fleet.claims.claim(MAC, "mac-1") == []
    assert (await works.ceiling()).spent_nano_usd == 12 * USD
    answer = await fleet.jobs.explain(await works.job("c"))
    assert answer.summary == "the budget of top is spent: no run starts"
    works.clock.seconds += 3600.0
    for coordinator in (fleet, await works.coordinator()):
        (matter,) = [m for m in await coordinator.attention.list(ANN) if m.kind == "budget"]
        assert (matter.title, matter.since) == ("All of it.", after(0.0))
    assert (await works.events("top")).count("ceiling_reached") == 1


async def test_coordinator_started_later_respects_the_exhausted_composite(works: Works) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), a_leaf("b"), budget=TEN)
    await fleet.reports.report(MAC, using(await claimed(fleet), 10 * USD))
    other = await works.coordinator()
    assert await other.claims.claim(MAC, "mac-1") == []
    running = await works.job("a")
    assert running.preemption is not None


async def test_halt_stops_workers_of_children_but_not_their_composite(
    works: Works,
) -> None:
    fleet = await works.with_roadmap(a_leaf("a"))
    grant = await claimed(fleet)
    await fleet.index.catch_up()
    await fleet.composites.step()
    assert (await works.job("top")).stage is Stage.BUILDING
    assert await fleet.halt_switches.stop_running(ANN, "notes") == 1
    await fleet.index.catch_up()
    assert {c.job_id for c in fleet.factories.commands("mac-1")} == {grant.job.id}


async def test_token_budget_is_a_ceiling(works: Works) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), a_leaf("b"), budget={"tokens": 100})
    grant = await claimed(fleet)
    changed = replace(using(grant, 0), usage=Usage(tokens_in=60, tokens_out=39))
    await fleet.reports.report(MAC, changed)
    assert not (await works.job("top")).over_budget
    await fleet.reports.report(MAC, replace(changed, usage=Usage(tokens_in=60, tokens_out=40)))
    assert (await works.job("top")).over_budget
    assert await fleet.claims.claim(MAC, "mac-1") == []


async def test_ceiling_applies_at_any_depth(works: Works) -> None:
    inner = {"name": "inner", "kind": "composite", "children": [a_leaf("a"), a_leaf("b")]}
    fleet = await works.with_roadmap(inner, a_leaf("c"), budget=TEN)
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    (deep,) = [grant for grant in grants if grant.job.name != "c"][:1]
    await fleet.reports.report(MAC, using(deep, 10 * USD))
    assert (await works.job("top")).over_budget
    assert (await works.job("inner")).over_budget
    for grant in grants:
        release = using(grant, 10 * USD, stage=Stage.QUEUED, result=Result.RELEASED, reason="x")
        await fleet.reports.report(MAC, release)
    assert await fleet.claims.claim(MAC, "mac-1", most=2) == []


async def test_nested_ceilings_count_their_own_spending(works: Works) -> None:
    inner = {"name": "inner", "kind": "composite", "budget": {"usd": 2}, "children": [a_leaf("a")]}
    fleet = await works.with_roadmap(inner, a_leaf("b"), budget=TEN)
    grants = {g.job.name: g for g in await fleet.claims.claim(MAC, "mac-1", most=2)}
    await fleet.reports.report(MAC, using(grants["a"], 2 * USD))
    await fleet.reports.report(MAC, using(grants["b"], 3 * USD))
    assert (await works.ceiling("inner")).spent_nano_usd == 2 * USD
    assert (await works.ceiling()).spent_nano_usd == 5 * USD
    assert (await works.job("inner")).over_budget
    assert not (await works.job("top")).over_budget


async def test_late_usage_is_booked_and_ship_steps_continue(works: Works) -> None:
    fleet = await works.with_roadmap(
        a_leaf("a", verify="true", reviewPolicy="auto"), a_leaf("b"), budget=TEN
    )
    grants = {g.job.name: g for g in await fleet.claims.claim(MAC, "mac-1", most=2)}
    await fleet.actions.act(ANN, grants["b"].job.id, "cancel", ActionRequest())
    with pytest.raises(Fenced):
        await fleet.reports.report(MAC, using(grants["b"], 10 * USD, stage=None))
    assert (await works.job("top")).over_budget
    done = using(grants["a"], 0, stage=Stage.TESTING, verify={"passed": True})
    await fleet.reports.report(MAC, using(grants["a"], 0))
    await fleet.reports.report(MAC, done)
    await fleet.actions.act(ANN, grants["a"].job.id, "ship", ActionRequest())
    assert (await claimed(fleet)).job.id == grants["a"].job.id


async def test_report_that_exhausts_the_budget_still_applies_its_plan(works: Works) -> None:
    fleet = await works.with_roadmap(profile="planner", reviewPolicy="auto", budget=TEN)
    grant = await claimed(fleet)
    await fleet.reports.report(MAC, using(grant, 0))
    plan = b"- {name: a, body: x}\n- {name: in, kind: composite, children: [{name: b, body: x}]}\n"

    async def pieces() -> AsyncIterator[bytes]:
        yield plan

    offered = ArtifactUpload(name=".aq/plan.yaml", sha256=hashlib.sha256(plan).hexdigest())
    await fleet.artifacts.add(MAC, grant.job.id, offered, pieces(), epoch=grant.lease.epoch)
    done = using(grant, 10 * USD, stage=Stage.TESTING)
    assert (await fleet.reports.report(MAC, done)).stage is Stage.SHIPPED
    assert (await works.job("top")).over_budget
    assert (await works.job("in")).over_budget
    assert await fleet.claims.claim(MAC, "mac-1", most=2) == []


async def test_zero_budget_starts_no_child(works: Works) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), budget={"usd": 0})
    assert (await works.job("a")).stage is Stage.BLOCKED
    assert await fleet.claims.claim(MAC, "mac-1") == []


async def test_concurrent_reports_are_all_booked(works: Works) -> None:
    fleet = await works.with_roadmap(a_leaf("a"), a_leaf("b"), budget={"usd": 1000})
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    rounds = range(1, 40)
    await asyncio.gather(
        *(fleet.reports.report(MAC, using(g, n, stage=None)) for n in rounds for g in grants)
    )
    assert (await works.ceiling()).spent_nano_usd == 2 * rounds[-1]


class Spending:
    """A composite whose children report in any order; over budget, they hand back."""

    def __init__(self, works: Works, fleet: Coordinator) -> None:
        self.works = works
        self.fleet = fleet
        self.running: dict[str, Grant] = {}
        self.told: dict[str, int] = {}
        self.slack = 0
        """One reporting step of what was running when the ceiling was reached."""

    async def grant(self) -> None:
        over = (await self.works.job("top")).over_budget
        for grant in await self.fleet.claims.claim(MAC, "mac-1"):
            assert not over
            self.running[grant.lease.run_id] = grant
            self.told[grant.lease.run_id] = 0

    async def report(self, number: int, nanos: int) -> None:
        if not self.running:
            return
        run_id = sorted(self.running)[number % len(self.running)]
        before = (await self.works.job("top")).over_budget
        if before:
            await self.hand_back(run_id, nanos)
            return
        self.told[run_id] += nanos
        await self.fleet.reports.report(MAC, using(self.running[run_id], self.told[run_id]))
        if (await self.works.job("top")).over_budget:
            self.slack += nanos

    async def hand_back(self, run_id: str, nanos: int) -> None:
        grant = self.running.pop(run_id)
        self.told[run_id] += nanos
        self.slack += nanos
        back = using(grant, self.told[run_id], stage=Stage.QUEUED, result=Result.PREEMPTED)
        await self.fleet.reports.report(MAC, replace(back, reason="asked to"))

    async def check(self, ceiling: int) -> None:
        spent = (await self.works.ceiling()).spent_nano_usd
        runs = await self.works.store.records(Run)
        assert spent == sum(run.spent_nano_usd for run in runs) == sum(self.told.values())
        assert spent <= ceiling + self.slack


STEPS = st.lists(
    st.one_of(
        st.just(("grant", 0, 0)),
        st.tuples(st.just("report"), st.integers(0, 3), st.integers(0, 4 * USD)),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), STEPS)
def test_spend_stays_under_the_ceiling_plus_one_report_per_run(
    usd: int, steps: list[tuple[str, int, int]]
) -> None:
    async def tried(folder: Path) -> None:
        works = Works(folder)
        inner = {"name": "in", "kind": "composite", "children": [a_leaf("a"), a_leaf("b")]}
        fleet = await works.with_roadmap(inner, a_leaf("c"), a_leaf("d"), budget={"usd": usd})
        world = Spending(works, fleet)
        for kind, number, nanos in steps:
            if kind == "grant":
                await world.grant()
            else:
                await world.report(number, nanos)
            await world.check(usd * USD)

    with TemporaryDirectory() as folder:
        asyncio.run(tried(Path(folder)))
