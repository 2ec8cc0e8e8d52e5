"""The shadow dispatcher: its decisions are published and compared, but have no effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.leadership import LEADER_TTL
from gigafactory.coordinator.core.ports import Message
from gigafactory.coordinator.dispatch import shadow_dispatcher as shadow
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Conflict, Forbidden, NotFound, Unavailable
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure
from gigafactory.domain.job.change import CommitResult, RecordChange, StaleRevision, Write
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.offer import OFFER_TTL
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.dispatch_mode import (
    ComparisonOutcome,
    DispatchMode,
    OutcomeCounts,
    ShadowComparison,
)
from gigafactory.domain.tenancy.product import Product, Weights
from gigafactory.store.memory import MemoryStore
from gigafactory.wire.fleet import Command
from tests.support.api_server import SYSTEM
from tests.support.builders import a_factory
from tests.support.memory_coordinator import MAC, CoordinatorHarness

ANN = replace(SYSTEM, product="notes")
LINUX = Caller(actor="factory:linux-1", factory_id="linux-1", products=("*",))
A_WHILE_S = 2.0
"""Long enough for the dispatcher to decide about all waiting jobs."""


class Yard(CoordinatorHarness):
    """A coordinator with two factories: mac-1 has an offer stream, linux-1 only claims."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.heard: list[Message] = []

    @asynccontextmanager
    async def open(self, way: DispatchMode = DispatchMode.SHADOW) -> AsyncIterator[Coordinator]:
        fleet = await self.with_factory()
        await self.enroll(fleet, "linux-1")
        await self.beat(fleet)
        if way is not DispatchMode.PUSH:
            await fleet.dispatch_control.set_mode(SYSTEM, "notes", way)
        async with fleet.offer_streams.stream(MAC, "mac-1") as messages:
            listening = asyncio.create_task(self._listen(messages))
            await fleet.dispatcher.step()
            await self.later(fleet, A_WHILE_S)
            yield fleet
            listening.cancel()
            await asyncio.wait([listening])

    async def beat(self, fleet: Coordinator) -> None:
        """Send a heartbeat of both factories."""
        await fleet.factories.heartbeat(MAC, a_factory(), Pressure(disk=0.5), ())
        linux = Factory(
            id="linux-1",
            token_id="",
            instance_id="linux-1-a",
            slots=4,
            engines={"claude": EngineSeats(seats=4)},
            enrolled_at=self.clock.now(),
        )
        await fleet.factories.heartbeat(LINUX, linux, Pressure(disk=0.5), ())

    async def _listen(self, messages: AsyncIterator[Message]) -> None:
        async for message in messages:
            self.heard.append(message)

    async def later(self, fleet: Coordinator, seconds: float) -> None:
        """Advance the clock and run a step of the dispatcher."""
        self.clock.seconds += seconds
        await fleet.index.catch_up()
        await fleet.dispatcher.step()

    def published(self) -> list[tuple[str, str]]:
        """Return the events on the stream of mac-1, each with its job."""
        return [(sent.event, sent.job_id) for each in self.heard if (sent := each.data).job_id]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def submitted(fleet: Coordinator, name: str = "greet", **manifest: object) -> Job:
    asked = {"name": name, "engine": "claude", "verify": "true", **manifest}
    made = await fleet.submissions.submit(ANN, [parse_json_job({"manifest": asked, "body": "Go."})])
    await fleet.index.catch_up()
    (job,) = made.jobs
    return job


async def claimed(fleet: Coordinator, by: Caller = MAC) -> list[str]:
    found = await fleet.claims.claim(by, by.factory_id or "")
    await fleet.index.catch_up()
    return [grant.job.id for grant in found]


async def counts(fleet: Coordinator) -> OutcomeCounts:
    (shown,) = await fleet.dispatch_control.show(ANN)
    return shown.comparison.counts if shown.comparison is not None else OutcomeCounts()


async def test_jobs_are_offered_without_a_claim_in_push_mode(yard: Yard) -> None:
    async with yard.open(DispatchMode.PUSH) as fleet:
        job = await submitted(fleet)
        await asyncio.sleep(0)
        assert yard.published() == [("offer", job.id)]
        assert fleet.factories.commands("mac-1") == []
        assert await counts(fleet) == OutcomeCounts()


@pytest.mark.parametrize("way", [DispatchMode.SHADOW, DispatchMode.PULL])
async def test_factories_are_asked_to_claim_in_shadow_and_pull_mode(
    yard: Yard, way: DispatchMode
) -> None:
    async with yard.open(way) as fleet:
        job = await submitted(fleet)
        await yard.later(fleet, A_WHILE_S)
        assert [event.type for event in await fleet.store.events(job.id)] == ["submitted"]
        assert [each.type for each in fleet.factories.commands("mac-1")] == ["ask"]
        commands = [each.data for each in yard.heard if isinstance(each.data, Command)]
        assert commands == [Command("ask")]
        assert yard.published() == ([("shadow", job.id)] if way is DispatchMode.SHADOW else [])
        assert await claimed(fleet) == [job.id]


async def test_products_use_their_own_dispatch_modes_at_once(yard: Yard) -> None:
    async with yard.open() as fleet:
        pushed = await fleet.submissions.submit(
            replace(SYSTEM, product="shop"),
            [parse_json_job({"manifest": {"name": "sell"}, "body": "Go."})],
        )
        job = await submitted(fleet)
        await asyncio.sleep(0)
        assert yard.published() == [("offer", pushed.jobs[0].id), ("shadow", job.id)]


async def test_draining_factory_is_not_asked_to_claim(yard: Yard) -> None:
    async with yard.open() as fleet:
        await fleet.factories.drain(SYSTEM, "mac-1")
        await fleet.index.catch_up()
        assert [each.type for each in fleet.factories.commands("mac-1")] == ["drain"]


async def test_claim_by_the_predicted_factory_agrees(yard: Yard) -> None:
    async with yard.open() as fleet:
        await submitted(fleet)
        assert len(await claimed(fleet)) == 1
        assert await counts(fleet) == OutcomeCounts(agree=1, same=1)


async def test_claim_by_a_worse_factory_diverges(yard: Yard) -> None:
    async with yard.open() as fleet:
        choosy = Product(id="notes", weights=Weights(affinity=2.0))
        await fleet.products.put(SYSTEM, choosy)
        job = await submitted(fleet, prefers=["factory:mac-1"])
        assert await claimed(fleet, LINUX) == [job.id]
        assert await counts(fleet) == OutcomeCounts(diverge=1)
        (shown,) = await fleet.dispatch_control.show(ANN)
        assert shown.comparison is not None
        (difference,) = shown.comparison.differences
        assert difference.shadow is not None
        assert difference.real is not None
        assert (difference.job_id, difference.outcome) == (job.id, ComparisonOutcome.DIVERGE)
        assert difference.shadow.factory_id == "mac-1"
        assert difference.real.factory_id == "linux-1"
        assert difference.shadow.score > difference.real.score


async def test_shadow_decisions_take_no_real_seats(yard: Yard) -> None:
    async with yard.open() as fleet:
        free = fleet.index.fleet.free_seats("mac-1", "claude", yard.clock.now())
        jobs = [await submitted(fleet, f"job-{number}") for number in range(free + 2)]
        assert [job_id for _, job_id in yard.published()] == [job.id for job in jobs[:free]]
        assert fleet.index.fleet.free_seats("mac-1", "claude", yard.clock.now()) == free
        taken = [await claimed(fleet, by) for by in (MAC,) * free + (LINUX,) * 2]
        assert [job_id for each in taken for job_id in each] == [job.id for job in jobs]
        found = await counts(fleet)
        assert (found.agree, found.same, found.only_real) == (free, free, 0)


async def test_unclaimed_job_is_counted_once(yard: Yard) -> None:
    async with yard.open() as fleet:
        job = await submitted(fleet)
        for _ in range(3):
            await yard.later(fleet, OFFER_TTL.total_seconds())
            await yard.beat(fleet)
        assert await claimed(fleet) == [job.id]
        assert await counts(fleet) == OutcomeCounts(only_shadow=1)


async def test_unclaimed_jobs_do_not_prevent_the_comparison_of_others(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "OPEN_DECISIONS_MAX", 1)
    async with yard.open() as fleet:
        for name in ("forgotten", "forgotten-too"):
            await submitted(fleet, name)
            await yard.later(fleet, OFFER_TTL.total_seconds())
            await yard.beat(fleet)
        assert (await counts(fleet)).only_shadow == 2
        late = await submitted(fleet, "late", priority="critical")
        await yard.later(fleet, OFFER_TTL.total_seconds() / 3)
        assert await claimed(fleet) == [late.id]
        assert (await counts(fleet)).agree == 1


async def test_unclaimed_jobs_beyond_the_limit_are_counted_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "UNCLAIMED_MAX", 0)
    async with yard.open() as fleet:
        await submitted(fleet)
        for _ in range(2):
            await yard.later(fleet, OFFER_TTL.total_seconds())
            await yard.beat(fleet)
        assert await counts(fleet) == OutcomeCounts(only_shadow=2)


async def test_claim_by_a_factory_without_a_stream_counts_as_only_real(yard: Yard) -> None:
    async with yard.open() as fleet:
        job = await submitted(fleet, capabilities=["factory:linux-1"])
        await yard.later(fleet, A_WHILE_S)
        assert await claimed(fleet, LINUX) == [job.id]
        assert await counts(fleet) == OutcomeCounts(only_real=1)


async def test_claim_before_the_dispatcher_could_decide_is_not_compared(yard: Yard) -> None:
    async with yard.open() as fleet:
        quick = await submitted(fleet, "quick", capabilities=["factory:linux-1"])
        assert await claimed(fleet, LINUX) == [quick.id]
        waited = await submitted(fleet, "waited", capabilities=["factory:linux-1"])
        await yard.later(fleet, A_WHILE_S)
        # The coordinator may not know yet that a factory which just finished a job has a free seat.
        lease = (await fleet.store.jobs([quick.id]))[quick.id].lease
        assert lease is not None
        await fleet.claims.release(LINUX, quick.id, lease.epoch, "not now")
        assert waited.id in [*await claimed(fleet, LINUX), *await claimed(fleet, LINUX)]
        assert await counts(fleet) == OutcomeCounts()


@pytest.mark.parametrize("cause", ["cancelled", "halted", "offline"])
async def test_unavailable_job_or_factory_is_not_counted_as_a_difference(
    yard: Yard, cause: str
) -> None:
    async with yard.open() as fleet:
        job = await submitted(fleet)
        if cause == "cancelled":
            await fleet.actions.act(ANN, job.id, "cancel", ActionRequest(reason="enough"))
        elif cause == "halted":
            await fleet.halt_switches.set_halted(ANN, "notes", halted=True)
        seconds = 200.0 if cause == "offline" else OFFER_TTL.total_seconds()
        await yard.later(fleet, seconds)
        assert await counts(fleet) == OutcomeCounts()


async def test_offers_made_before_the_switch_to_shadow_are_honoured(yard: Yard) -> None:
    async with yard.open(DispatchMode.PUSH) as fleet:
        job = await submitted(fleet)
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.SHADOW)
        grant = await fleet.claims.accept(MAC, "mac-1", job.id, f"{job.id}.1")
        await fleet.index.catch_up()
        assert grant.lease.factory_id == "mac-1"
        assert await counts(fleet) == OutcomeCounts()


async def test_only_the_leader_compares(yard: Yard) -> None:
    async with yard.open() as fleet:
        yard.clock.seconds += LEADER_TTL.total_seconds() + 1
        await submitted(fleet)
        assert len(await claimed(fleet)) == 1
        assert await counts(fleet) == OutcomeCounts()


async def test_entering_shadow_mode_again_starts_a_new_comparison(yard: Yard) -> None:
    async with yard.open() as fleet:
        await submitted(fleet)
        await claimed(fleet)
        assert (await counts(fleet)).agree == 1
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.PULL)
        assert (await counts(fleet)).agree == 1
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.SHADOW)
        assert await counts(fleet) == OutcomeCounts()


async def test_mode_change_discards_earlier_shadow_decisions(yard: Yard) -> None:
    async with yard.open() as fleet:
        job = await submitted(fleet)
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.PULL)
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.SHADOW)
        await yard.later(fleet, 0.0)
        await asyncio.sleep(0)
        assert yard.published() == [("shadow", job.id)] * 2
        assert await claimed(fleet) == [job.id]
        assert await counts(fleet) == OutcomeCounts(agree=1, same=1)


async def test_cut_over_needs_enough_agreement_or_force(
    yard: Yard,
) -> None:
    async with yard.open() as fleet:
        with pytest.raises(Conflict, match=r"0 comparisons"):
            await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.PUSH)
        known = await fleet.store.record(ShadowComparison, "notes")
        assert known is not None
        enough = replace(known, counts=OutcomeCounts(agree=500, same=500), rev=known.rev + 1)
        await fleet.store.commit(RecordChange(before=known, after=enough))
        set_rollout = await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.PUSH)
        assert set_rollout.mode is DispatchMode.PUSH
        await submitted(fleet)
        await asyncio.sleep(0)
        assert [event for event, _ in yard.published()] == ["offer"]
        await fleet.dispatch_control.set_mode(SYSTEM, "shop", DispatchMode.PULL)
        with pytest.raises(Conflict, match=r"force the switch"):
            await fleet.dispatch_control.set_mode(SYSTEM, "shop", DispatchMode.PUSH)
        assert (
            await fleet.dispatch_control.set_mode(SYSTEM, "shop", DispatchMode.PUSH, force=True)
        ).mode == "push"


async def test_product_update_keeps_its_dispatch_mode(yard: Yard) -> None:
    async with yard.open() as fleet:
        await fleet.products.put(SYSTEM, Product(id="notes", share=2.0))
        await fleet.index.catch_up()
        assert fleet.index.dispatch_modes.mode_of("notes") is DispatchMode.SHADOW
        another = await yard.coordinator()
        assert another.index.dispatch_modes.mode_of("notes") is DispatchMode.SHADOW
        assert another.index.dispatch_modes.mode_of("shop") is DispatchMode.PUSH


async def test_setting_the_same_dispatch_mode_writes_nothing(yard: Yard) -> None:
    async with yard.open() as fleet:
        before = await fleet.store.position()
        await fleet.dispatch_control.set_mode(SYSTEM, "notes", DispatchMode.SHADOW)
        assert await fleet.store.position() == before


async def test_operators_set_dispatch_modes_only_for_visible_products(yard: Yard) -> None:
    async with yard.open() as fleet:
        viewer = Caller(actor="user:vera", role=Role.VIEWER, products=("notes",))
        with pytest.raises(Forbidden):
            await fleet.dispatch_control.set_mode(viewer, "notes", DispatchMode.PULL)
        olga = Caller(actor="user:olga", role=Role.OPERATOR, products=("notes",))
        with pytest.raises(NotFound):
            await fleet.dispatch_control.set_mode(olga, "shop", DispatchMode.PULL)
        await fleet.dispatch_control.set_mode(SYSTEM, "shop", DispatchMode.PULL)
        assert [each.product_id for each in await fleet.dispatch_control.show(olga)] == ["notes"]
        shown = await fleet.dispatch_control.show(SYSTEM)
        assert [(each.product_id, each.mode) for each in shown] == [
            ("notes", DispatchMode.SHADOW),
            ("shop", DispatchMode.PULL),
        ]


class RefusingStore(MemoryStore):
    """A store that can refuse to commit shadow comparisons."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: StaleRevision | Exception | None = None

    async def commit(self, *writes: Write) -> CommitResult:
        kept = any(
            isinstance(w, RecordChange) and isinstance(w.after, ShadowComparison) for w in writes
        )
        if not kept or self.refuses is None:
            return await super().commit(*writes)
        if isinstance(self.refuses, Exception):
            raise self.refuses
        return self.refuses


async def test_comparison_survives_failed_writes(yard: Yard) -> None:
    store = yard.store = RefusingStore()
    async with yard.open() as fleet:
        await submitted(fleet)
        await claimed(fleet)
        store.refuses = StaleRevision("comparison/notes")
        await fleet.shadow.save_comparisons()
        store.refuses = Unavailable("the store is away")
        with pytest.raises(Unavailable):
            await fleet.shadow.save_comparisons()
        store.refuses = None
        assert await counts(fleet) == OutcomeCounts(agree=1, same=1)
