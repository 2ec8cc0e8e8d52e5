"""Planted bugs: each removes one guard, and a seed must fail without it."""

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
    """A guard to remove, and a seed that fails without it."""

    name: str
    without: str
    """A short description of the guard."""
    plant: Callable[[], swaps.Patch]
    scenario: str
    seed: int
    """The first seed of the scenario that fails."""


def _always(*_: object) -> bool:
    return True


MUTANTS: tuple[Mutant, ...] = (
    Mutant("no-cas", "compare-and-set on a job in the store", swaps.no_compare_and_set, "race", 0),
    Mutant("no-seq", "the event number in compare-and-set", swaps.seq_not_compared, "storm", 7),
    Mutant("no-fence", "the fencing check", swaps.fence(lambda *_: True), "storm", 7),
    Mutant(
        "no-epoch",
        "the epoch in the fencing check",
        swaps.fence(lambda held, who, _: held.factory_id == who),
        "storm",
        7,
    ),
    Mutant(
        "no-owner",
        "the factory in the fencing check",
        swaps.fence(lambda held, _, epoch: held.epoch == epoch),
        "storm",
        14,
    ),
    Mutant("no-lock", "unique keys for locks", swaps.keys_not_held("lock/"), "race", 25),
    Mutant(
        "no-seats",
        "unique keys for slots and seats",
        swaps.keys_not_held("slot/", "seat/"),
        "race",
        491,
    ),
    Mutant(
        "no-fleet-seats",
        "unique keys for fleet-wide seats",
        swaps.keys_not_held("fleet-seat/"),
        "race",
        457,
    ),
    Mutant("no-key", "unique keys for idempotency keys", swaps.keys_not_held("key/"), "race", 42),
    Mutant("no-name", "unique keys for names", swaps.keys_not_held("name/"), "race", 78),
    Mutant(
        "no-expired",
        "the guard on the expiry in the reaper's commit",
        swaps.guards_ignored(lambda g: isinstance(g, LeaseExpiredGuard)),
        "pauses",
        330,
    ),
    Mutant(
        "no-switch",
        "the guard on the halt switch in the grant's commit",
        swaps.revisions_ignored("switch"),
        "meddling",
        122,
    ),
    Mutant(
        "no-look",
        "the check of halt and drain before a grant",
        lambda: swapped((Index, "may_assign", lambda *_: True)),
        "meddling",
        71,
    ),
    Mutant(
        "no-ask",
        "the request to factories to poll for jobs that are not offered",
        lambda: swapped((DispatchModes, "must_poll", lambda *_: False)),
        "meddling",
        30,
    ),
    Mutant(
        "no-token",
        "the guard on the token in a commit",
        swaps.revisions_ignored("token"),
        "meddling",
        8,
    ),
    Mutant(
        "no-factory",
        "the guard on the factory in the grant's commit",
        swaps.revisions_ignored("factory"),
        "meddling",
        266,
    ),
    Mutant(
        "no-leader",
        "the guard on the leader's epoch in the offer's commit",
        swaps.unguarded_leader,
        "race",
        67,
    ),
    Mutant(
        "no-scope",
        "the check of the products that a factory's token allows",
        lambda: swapped((FactoryTraits, "admits", lambda *_: True)),
        "storm",
        3,
    ),
    Mutant(
        "no-answers",
        "responses stored in the same commit as the change",
        swaps.no_stored_responses,
        "network",
        2,
    ),
    Mutant("no-event", "one type of event", swaps.an_event_missing, "calm", 0),
    Mutant(
        "no-bump",
        "epoch + 1 at expiry",
        lambda: swaps.altered(lease, "expire", lease_epoch=lambda job, _: job.lease_epoch),
        "storm",
        2,
    ),
    Mutant(
        "no-bump-cancel",
        "epoch + 1 at cancel",
        lambda: swaps.altered(decisions, "cancel", lease_epoch=lambda job, _: job.lease_epoch),
        "storm",
        85,
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
        "counting attempts",
        lambda: swaps.altered(outcome, "_run_failed", attempts=lambda job, _: job.attempts),
        "calm",
        13,
    ),
    Mutant(
        "no-checkpoint",
        "keeping the checkpoint at expiry",
        lambda: swaps.altered(lease, "expire", checkpoint=lambda *_: None),
        "storm",
        2,
    ),
    Mutant(
        "no-unblocker",
        "the unblocker's subscription to the change feed",
        lambda: swapped((Unblocker, "notice", swaps.nothing)),
        "calm",
        2,
    ),
    Mutant(
        "no-dep-guard",
        "the guards on dependencies in the submit's commit",
        swaps.no_dep_guards,
        "race",
        17,
    ),
    Mutant(
        "no-extension",
        "the extension of leases after an outage",
        swaps.no_gap_extension,
        "store",
        5,
    ),
    Mutant("no-reaper", "the reaper", swaps.no_reaper, "meddling", 2),
    Mutant(
        "no-doubt",
        "reading a job again after a commit with unknown result",
        lambda: swapped((Index, "mark_stale", swaps.nothing)),
        "storm",
        8,
    ),
    Mutant("no-withdrawal", "the withdrawal of expired offers", swaps.no_withdrawal, "network", 0),
    Mutant(
        "no-patience",
        "keeping seats and locks until the worker of a cancelled job stops",
        swaps.lease_over_at_once,
        "race",
        12,
    ),
    Mutant(
        "no-place", "the position of a follower in the feed", swaps.a_stream_skips, "network", 4
    ),
    Mutant(
        "no-restream",
        "repeated records that a stream is open",
        swaps.streams_recorded_once,
        "storm",
        43,
    ),
    Mutant(
        "no-end",
        "the limit of attempts to accept an offer",
        lambda: swapped((claims, "ACCEPT_TRIES_MAX", 10**9)),
        "race",
        25,
    ),
    Mutant("no-booking", "booking costs in the report's commit", swaps.nothing_booked, "calm", 3),
    Mutant(
        "no-budget-cas",
        "compare-and-set on a budget in the store",
        swaps.budgets_overwritten,
        "race",
        90,
    ),
    Mutant(
        "no-budget-guard",
        "the guard that no budget exists",
        swaps.revisions_ignored("budget"),
        "race",
        8,
    ),
    Mutant(
        "no-rank",
        "the priority check of preemption",
        swaps.preempts_any_job,
        "calm",
        8,
    ),
    Mutant(
        "no-end-to-making-way",
        "the limit of preemptions per job",
        lambda: swapped((incumbents, "PREEMPTIONS_MAX", 10**9)),
        "calm",
        469,
    ),
    Mutant(
        "no-front",
        "the queue position of a preempted job",
        lambda: swaps.altered(outcome, "hand_back", front=lambda job, _: job.front),
        "calm",
        1,
    ),
    Mutant(
        "no-composite-guard",
        "the guard on the composite in the grant's commit",
        swaps.composite_unguarded,
        "race",
        283,
    ),
    Mutant(
        "no-gate",
        "the phases of a composite",
        lambda: swapped((submission, "admits", _always)),
        "calm",
        1,
    ),
    Mutant("no-charge", "booking costs on a composite's budget", swaps.nothing_charged, "calm", 8),
    Mutant(
        "no-composites",
        "the duty that advances composites",
        lambda: swapped((CompositeAdvancer, "notice", swaps.nothing)),
        "calm",
        1,
    ),
    Mutant(
        "no-longer",
        "the rule that a renewal never shortens a lease",
        swaps.renewals_shorten,
        "calm",
        0,
    ),
    Mutant(
        "no-memory",
        "the rule that a fenced worker is noted once",
        swaps.fenced_every_time,
        "storm",
        2,
    ),
    Mutant(
        "no-steady",
        "the time since boot in the coordinator's clock",
        swaps.clock_stands_still,
        "pauses",
        0,
    ),
    Mutant(
        "no-ceiling",
        "the budget ceiling",
        swaps.ceiling_ignored,
        "calm",
        5,
    ),
)
