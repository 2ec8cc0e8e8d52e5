"""Fair shares, ageing and scarcity over hours of simulated time."""

import random
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gigafactory.domain.fleet.factory import EngineSeats, Factory
from gigafactory.domain.job.job import Priority
from tests.support.builders import NOON, a_running_job
from tests.support.scheduler_world import Arrival, SchedulerSimulation
from tests.support.small_fleet import a_fleet, a_linux, a_queue, ask_for, old_job, pick_job

pytestmark = pytest.mark.slow

HOUR = 3600.0
SHARES = {"a": 1.0, "b": 1.0, "c": 2.0}
SEATS = 8
MINUTES = {"short": 2, "usual": 10, "long": 30}
CATCHING_UP_S = 0.5 * HOUR
"""A half-life: the longest time for which a product with half of the weight goes first."""


def two_seats(factory_id: str, **fields: object) -> Factory:
    return a_linux(factory_id, slots=2, engines={"claude": EngineSeats(seats=2)}, **fields)


def machines(number: int = SEATS // 2) -> list[Factory]:
    return [two_seats(f"f{each}") for each in range(number)]


def stream(
    rng: random.Random,
    product_id: str,
    *,
    until_s: float,
    load: float,
    mean_s: float,
    **given: float,
) -> Iterator[Arrival]:
    """Yield jobs of a product at random times; `load` is their share of the fleet's capacity."""
    at_s = given.get("since_s", 0.0)
    while (at_s := at_s + rng.expovariate(load * SEATS / mean_s)) < until_s:
        lasts_s = rng.uniform(0.2, 1.8) * mean_s
        yield Arrival(at_s=at_s, lasts_s=lasts_s, product_id=product_id)


def assert_by_weight(flow: SchedulerSimulation, since_s: float, until_s: float) -> None:
    served = flow.served(since_s, until_s)
    due = sum(served.values()) / sum(SHARES.values())
    for product_id, share in SHARES.items():
        assert served[product_id] == pytest.approx(due * share, rel=0.05), served


@pytest.mark.parametrize("minutes", MINUTES.values(), ids=MINUTES.keys())
@pytest.mark.parametrize("busiest", ["none", "a", "b", "c"])
@pytest.mark.parametrize("seed", range(2))
def test_overloaded_products_are_served_by_their_weights(
    minutes: int, busiest: str, seed: int
) -> None:
    rng, hours = random.Random(seed), 3 + minutes
    arrivals = [
        arrival
        for each in SHARES
        for arrival in stream(
            rng,
            each,
            until_s=hours * HOUR,
            load=8.0 if each == busiest else 0.8,
            mean_s=60.0 * minutes,
        )
    ]
    flow = SchedulerSimulation(machines(), arrivals, shares=SHARES).run(hours * HOUR)
    assert_by_weight(flow, HOUR, hours * HOUR)


@pytest.mark.parametrize("seed", range(3))
def test_late_product_is_served_at_once_and_catches_up_within_bounds(
    seed: int,
) -> None:
    rng, came, ends = random.Random(seed), 6 * HOUR, 16 * HOUR
    loads = {"load": 0.8, "mean_s": 600.0, "until_s": ends}
    arrivals = [*stream(rng, "a", **loads), *stream(rng, "b", **loads)]
    arrivals += stream(rng, "c", since_s=came, **loads)
    flow = SchedulerSimulation(machines(), arrivals, shares=SHARES).run(ends)
    first = min(flow.started[job_id] for job_id in flow.started_jobs("c"))
    assert first <= came + 0.2 * HOUR, "others had all of the fleet, and their jobs are older"
    settled = came + CATCHING_UP_S + 0.3 * HOUR
    lead = flow.served(came, settled)["c"] - SEATS * (settled - came) / 2
    assert lead <= SEATS * CATCHING_UP_S / 2 + 0.1 * HOUR
    assert_by_weight(flow, settled, ends)


@pytest.mark.parametrize("seed", range(3))
def test_burst_does_not_delay_jobs_of_a_product_within_its_share(seed: int) -> None:
    rng, ends = random.Random(seed), 12 * HOUR
    burst = [Arrival(at_s=0.0, lasts_s=600.0, product_id="a") for _ in range(1000)]
    light = stream(rng, "c", load=0.2, mean_s=600.0, until_s=ends)
    flow = SchedulerSimulation(machines(), [*burst, *light], shares=SHARES).run(ends)
    waits = sorted(
        wait for job_id, wait in flow.waits().items() if job_id in flow.started_jobs("c")
    )
    assert len(waits) > 0.9 * sum(a.product_id == "c" for a in flow.arrivals.values())
    assert waits[len(waits) // 2] < 300.0
    assert waits[-1] < 1800.0


def test_job_is_not_overtaken_by_much_later_jobs_of_any_priority() -> None:
    """Check that a job overtakes only jobs at most one hour older per rank, plus one hour."""
    for seed in range(2000):
        rng = random.Random(seed)
        arrivals = [
            Arrival(
                at_s=rng.uniform(0.0, 5 * HOUR),
                lasts_s=rng.uniform(0.2, 2.5) * HOUR,
                priority=rng.choice((Priority.CRITICAL, *Priority)),
                ask=ask_for(repo=rng.choice((None, "notes", "shop"))),
            )
            for _ in range(rng.randint(5, 9))
        ]
        flow = SchedulerSimulation([a_linux("f0", repos=("notes",))], arrivals).run(100 * HOUR)
        assert len(flow.order) == len(arrivals), "none waits for ever"
        order = [flow.arrivals[job_id] for job_id in flow.order]
        for number, went in enumerate(order):
            assert not any(overtaken(waited, went) for waited in order[number + 1 :]), seed


def overtaken(waited: Arrival, went: Arrival) -> bool:
    """Return whether `went` started first although `waited` arrived too much earlier for that."""
    ahead = max(0, waited.priority.rank - went.priority.rank)
    return went.at_s - waited.at_s > (ahead + 1) * HOUR


@pytest.mark.parametrize("seed", range(20))
def test_low_job_waits_at_most_three_hours_under_a_flood_of_critical_jobs(
    seed: int,
) -> None:
    rng, ends = random.Random(seed), 20 * HOUR
    flood = [
        Arrival(at_s=at_s, lasts_s=rng.uniform(300, 900), priority=Priority.CRITICAL)
        for at_s in sorted(rng.uniform(0.0, ends) for _ in range(360))
    ]
    low = [
        Arrival(at_s=at * HOUR, lasts_s=600.0, product_id="shop", priority=Priority.LOW)
        for at in range(1, 16)
    ]
    flow = SchedulerSimulation(machines(1), [*flood, *low]).run(ends)
    waits = [wait for job_id, wait in flow.waits().items() if job_id in flow.started_jobs("shop")]
    assert len(waits) == len(low)
    assert max(waits) <= 3 * HOUR + 900.0


@pytest.mark.parametrize("seed", range(10))
def test_rare_job_starts_within_one_job_length_despite_common_jobs(
    seed: int,
) -> None:
    rng, ends, longest = random.Random(seed), 12 * HOUR, 1800.0
    common = [
        Arrival(at_s=at_s, lasts_s=rng.uniform(300, longest), product_id="shop")
        for at_s in sorted(rng.uniform(0.0, ends) for _ in range(700))
    ]
    rare = [
        Arrival(at_s=at * HOUR + 60.0, lasts_s=longest, ask=ask_for("has:xcode"))
        for at in range(1, 12)
        for _ in range(2)
    ]
    mac = two_seats("mac", capabilities=("os:mac", "has:xcode"))
    flow = SchedulerSimulation([mac, *machines(3)], [*common, *rare], shares={"shop": 5.0}).run(
        ends
    )
    assert len(flow.started_jobs("notes")) == len(rare)
    assert max(flow.waits()[job_id] for job_id in flow.started_jobs("notes")) <= longest
    tied_up = flow.fleet.member("mac")
    assert tied_up is not None
    assert tied_up.occupancy.load == 1.0, "no seat is kept empty for what does not wait"


@pytest.mark.parametrize("seed", range(5))
def test_undemanding_jobs_do_not_starve_behind_demanding_ones(
    seed: int,
) -> None:
    rng, ends = random.Random(seed), 12 * HOUR
    choosy = [
        Arrival(at_s=at_s, lasts_s=600.0, ask=ask_for(rng.choice(("os:mac", "os:linux"))))
        for at_s in sorted(rng.uniform(0.0, ends) for _ in range(500))
    ]
    anywhere = [Arrival(at_s=at * HOUR, lasts_s=600.0) for at in range(8)]
    fleet = [two_seats("mac", capabilities=("os:mac",)), two_seats("linux")]
    flow = SchedulerSimulation(fleet, [*choosy, *anywhere]).run(ends)
    at = [
        flow.started[j] for j, a in flow.arrivals.items() if not a.ask.needs and j in flow.started
    ]
    assert len(at) >= len(anywhere) - 1
    assert max(at) > 8 * HOUR


@pytest.mark.parametrize(("hours", "first"), [(2, "fresh"), (23, "fresh"), (24, "old")])
def test_old_jobs_of_a_product_over_its_share_pass_others_only_after_a_day(
    hours: int, first: str
) -> None:
    fleet = a_fleet(two_seats("mac-1"))
    fleet.put_job(a_running_job(id="running"))
    old = old_job("old", waited=timedelta(hours=hours), priority=Priority.LOW)
    fresh = old_job("fresh", product_id="shop", priority=Priority.HIGH)
    pick = pick_job(a_queue(old, fresh), fleet, "mac-1", now=NOON)
    assert pick is not None
    assert pick.job_id == first
