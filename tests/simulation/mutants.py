"""Planted bugs: each takes one guard out, and some seed must turn red."""

from collections.abc import Callable
from dataclasses import dataclass

from gigafactory.coordinator.dispatch import claims
from gigafactory.coordinator.duties.unblocker import Unblocker
from gigafactory.coordinator.index.dispatch_modes import DispatchModes
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.lifecycle.composites import CompositeAdvancer
from gigafactory.domain.fleet import running_jobs as incumbents
from gigafactory.domain.fleet.matching import FactoryTraits
from gigafactory.domain.job import lease
from gigafactory.domain.job import operator_actions as decisions
from gigafactory.domain.job import run_outcome as outcome
from gigafactory.domain.job.change import LeaseExpiredGuard
from gigafactory.domain.submission import submission
from tests.simulation import swaps
from tests.simulation.swaps import swapped


@dataclass(frozen=True)
class Mutant:
    """One guard that is taken out, and a seed that notices."""

    name: str
    without: str
    """The guard, in a few words."""
    plant: Callable[[], swaps.Patch]
    scenario: str
    seed: int
    """The first seed of the scenario that turns red."""


def _always(*_: object) -> bool:
    return True


MUTANTS: tuple[Mutant, ...] = (
    Mutant("no-cas", "the store's compare-and-set on a job", swaps.no_compare_and_set, "race", 2),
    Mutant("no-seq", "the event number in the compare-and-set", swaps.seq_not_compared, "storm", 7),
    Mutant("no-fence", "the fence", swaps.fence(lambda *_: True), "storm", 7),
    Mutant(
        "no-epoch",
        "the epoch in the fence",
        swaps.fence(lambda held, who, _: held.factory_id == who),
        "storm",
        7,
    ),
    Mutant(
        "no-owner",
        "the factory in the fence",
        swaps.fence(lambda held, _, epoch: held.epoch == epoch),
        "storm",
        5,
    ),
    Mutant("no-lock", "locks as keys", swaps.keys_not_held("lock/"), "race", 13),
    Mutant(
        "no-seats",
        "slots and seats as keys",
        swaps.keys_not_held("slot/", "seat/"),
        "race",
        461,
    ),
    Mutant(
        "no-fleet-seats",
        "fleet-wide seats as keys",
        swaps.keys_not_held("fleet-seat/"),
        "race",
        242,
    ),
    Mutant("no-key", "idempotency keys as keys", swaps.keys_not_held("key/"), "race", 107),
    Mutant("no-name", "names as keys", swaps.keys_not_held("name/"), "race", 19),
    Mutant(
        "no-expired",
        "the reaper's second look at the expiry",
        swaps.guards_unheard(lambda g: isinstance(g, LeaseExpiredGuard)),
        "pauses",
        668,
    ),
    Mutant(
        "no-switch",
        "the halt switch in the grant's commit",
        swaps.unmoved("switch"),
        "meddling",
        26,
    ),
    Mutant(
        "no-look",
        "the look at halt and drain beside the guards",
        lambda: swapped((Index, "may_assign", lambda *_: True)),
        "meddling",
        9,
    ),
    Mutant(
        "no-ask",
        "the word to factories to ask for what is not offered",
        lambda: swapped((DispatchModes, "must_poll", lambda *_: False)),
        "meddling",
        30,
    ),
    Mutant("no-token", "the token in the commit", swaps.unmoved("token"), "meddling", 17),
    Mutant(
        "no-factory",
        "the factory's record in the grant's commit",
        swaps.unmoved("factory"),
        "meddling",
        39,
    ),
    Mutant(
        "no-leader", "the leader's epoch in the offer's commit", swaps.unguarded_leader, "race", 8
    ),
    Mutant(
        "no-scope",
        "the products of a factory's token",
        lambda: swapped((FactoryTraits, "admits", lambda *_: True)),
        "storm",
        3,
    ),
    Mutant("no-answers", "answers in the change's own commit", swaps.no_answers, "network", 2),
    Mutant("no-event", "one kind of event", swaps.an_event_missing, "calm", 0),
    Mutant(
        "no-bump",
        "epoch + 1 at expiry",
        lambda: swaps.altered(lease, "expire", lease_epoch=lambda job, _: job.lease_epoch),
        "storm",
        1,
    ),
    Mutant(
        "no-bump-cancel",
        "epoch + 1 at cancel",
        lambda: swaps.altered(decisions, "cancel", lease_epoch=lambda job, _: job.lease_epoch),
        "storm",
        216,
    ),
    Mutant(
        "no-backoff",
        "the back-off before a retry",
        lambda: swaps.altered(outcome, "_run_failed", not_before=lambda *_: None),
        "calm",
        0,
    ),
    Mutant(
        "no-limit",
        "the count of attempts",
        lambda: swaps.altered(outcome, "_run_failed", attempts=lambda job, _: job.attempts),
        "calm",
        17,
    ),
    Mutant(
        "no-checkpoint",
        "the checkpoint at expiry",
        lambda: swaps.altered(lease, "expire", checkpoint=lambda *_: None),
        "storm",
        2,
    ),
    Mutant(
        "no-unblocker",
        "the unblocker's ear on the feed",
        lambda: swapped((Unblocker, "notice", swaps.nothing)),
        "calm",
        2,
    ),
    Mutant(
        "no-dep-guard", "the dependencies in the submit's commit", swaps.no_dep_guards, "race", 188
    ),
    Mutant("no-extension", "longer leases after an outage", swaps.no_gap_extension, "store", 5),
    Mutant("no-reaper", "the reaper", swaps.no_reaper, "meddling", 2),
    Mutant(
        "no-doubt",
        "the second look at a job after a lost commit",
        lambda: swapped((Index, "mark_stale", swaps.nothing)),
        "storm",
        3,
    ),
    Mutant("no-withdrawal", "taking back an offer that lapsed", swaps.no_withdrawal, "network", 8),
    Mutant(
        "no-patience",
        "holds that last until a cancelled worker stops",
        swaps.lease_over_at_once,
        "race",
        8,
    ),
    Mutant("no-place", "a follower's place in the feed", swaps.a_stream_skips, "network", 4),
    Mutant(
        "no-restream", "saying again that a stream is open", swaps.streams_said_once, "storm", 34
    ),
    Mutant(
        "no-end",
        "an end to trying to accept",
        lambda: swapped((claims, "ACCEPT_TRIES_MAX", 10**9)),
        "race",
        57,
    ),
    Mutant("no-booking", "booking with the report", swaps.nothing_booked, "calm", 3),
    Mutant(
        "no-budget-cas",
        "the store's compare-and-set on a budget",
        swaps.budgets_overwritten,
        "race",
        90,
    ),
    Mutant(
        "no-budget-guard",
        "the guard that there is no budget",
        swaps.unmoved("budget"),
        "race",
        116,
    ),
    Mutant(
        "no-rank",
        "the ranks of who makes way for whom",
        swaps.anybody_makes_way,
        "calm",
        8,
    ),
    Mutant(
        "no-end-to-making-way",
        "how often a job makes way at most",
        lambda: swapped((incumbents, "PREEMPTIONS_MAX", 10**9)),
        "calm",
        82,
    ),
    Mutant(
        "no-front",
        "the place of a job that made way",
        lambda: swaps.altered(outcome, "hand_back", front=lambda job, _: job.front),
        "calm",
        1,
    ),
    Mutant(
        "no-composite-guard",
        "the composite in the grant's commit",
        swaps.composite_unguarded,
        "race",
        568,
    ),
    Mutant(
        "no-gate",
        "the phases of a composite",
        lambda: swapped((submission, "admits", _always)),
        "calm",
        1,
    ),
    Mutant("no-charge", "booking on the ceiling of a composite", swaps.nothing_charged, "calm", 8),
    Mutant(
        "no-composites",
        "the duty that moves composites",
        lambda: swapped((CompositeAdvancer, "notice", swaps.nothing)),
        "calm",
        1,
    ),
    Mutant(
        "no-ceiling",
        "the ceiling",
        swaps.ceiling_unheard,
        "calm",
        5,
    ),
)
