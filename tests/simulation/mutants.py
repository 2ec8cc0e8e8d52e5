"""Planted bugs: each removes one guard, and a seed must fail without it."""

from collections.abc import Callable
from dataclasses import dataclass

from gigafactory.coordinator.core import committer
from gigafactory.coordinator.dispatch import claims
from gigafactory.coordinator.duties.unblocker import Unblocker
from gigafactory.coordinator.index.dispatch_modes import DispatchModes
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.lifecycle.composites import CompositeAdvancer
from gigafactory.domain.fleet import running_jobs
from gigafactory.domain.fleet.matching import FactoryTraits
from gigafactory.domain.job import lease, operator_actions, run_outcome
from gigafactory.domain.job.change import LeaseExpiredGuard
from gigafactory.domain.job.job import Stage
from gigafactory.domain.submission import submission
from tests.simulation import lease_patches, patches
from tests.simulation.patches import patched


@dataclass(frozen=True)
class Mutant:
    """A guard to remove, and a seed that fails without it."""

    name: str
    without: str
    """A short description of the guard."""
    plant: Callable[[], patches.Patch]
    scenario: str
    seed: int
    """The first seed of the scenario that fails."""


def _always(*_: object) -> bool:
    return True


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no-cas", "compare-and-set on a job in the store", patches.no_compare_and_set, "race", 0
    ),
    Mutant("no-seq", "the event number in compare-and-set", patches.seq_not_compared, "storm", 17),
    Mutant("no-fence", "the fencing check", patches.fence(lambda *_: True), "storm", 7),
    Mutant(
        "no-epoch",
        "the epoch in the fencing check",
        patches.fence(lambda held, who, _: held.factory_id == who),
        "storm",
        7,
    ),
    Mutant(
        "no-owner",
        "the factory in the fencing check",
        patches.fence(lambda held, _, epoch: held.epoch == epoch),
        "storm",
        44,
    ),
    Mutant("no-lock", "unique keys for locks", patches.keys_not_held("lock/"), "race", 13),
    Mutant(
        "no-seats",
        "unique keys for slots and seats",
        patches.keys_not_held("slot/", "seat/"),
        "race",
        491,
    ),
    Mutant(
        "no-fleet-seats",
        "unique keys for fleet-wide seats",
        patches.keys_not_held("fleet-seat/"),
        "race",
        67,
    ),
    Mutant("no-key", "unique keys for idempotency keys", patches.keys_not_held("key/"), "race", 42),
    Mutant("no-name", "unique keys for names", patches.keys_not_held("name/"), "race", 78),
    Mutant(
        "no-expired",
        "the guard on the expiry in the reaper's commit",
        patches.guards_ignored(lambda g: isinstance(g, LeaseExpiredGuard)),
        "pauses",
        330,
    ),
    Mutant(
        "no-switch",
        "the guard on the halt switch in the grant's commit",
        patches.revisions_ignored("switch"),
        "interventions",
        122,
    ),
    Mutant(
        "no-halt-check",
        "the check of halt and drain before a grant",
        lambda: patched((Index, "may_assign", lambda *_: True)),
        "interventions",
        71,
    ),
    Mutant(
        "no-poll-request",
        "the request to factories to poll for jobs that are not offered",
        lambda: patched((DispatchModes, "must_poll", lambda *_: False)),
        "interventions",
        30,
    ),
    Mutant(
        "no-token",
        "the guard on the token in a commit",
        patches.revisions_ignored("token"),
        "interventions",
        26,
    ),
    Mutant(
        "no-factory",
        "the guard on the factory in the grant's commit",
        patches.revisions_ignored("factory"),
        "interventions",
        266,
    ),
    Mutant(
        "no-leader",
        "the guard on the leader's epoch in the offer's commit",
        patches.no_leader_guard,
        "race",
        35,
    ),
    Mutant(
        "no-scope",
        "the check of the products that a factory's token allows",
        lambda: patched((FactoryTraits, "admits", lambda *_: True)),
        "storm",
        3,
    ),
    Mutant(
        "no-stored-responses",
        "responses stored in the same commit as the change",
        patches.no_stored_responses,
        "network",
        2,
    ),
    Mutant("no-event", "one type of event", patches.drop_one_event_type, "calm", 0),
    Mutant(
        "no-epoch-bump",
        "epoch + 1 at expiry",
        lambda: patches.altered(lease, "expire", lease_epoch=lambda job, _: job.lease_epoch),
        "storm",
        2,
    ),
    Mutant(
        "no-epoch-bump-at-cancel",
        "epoch + 1 at cancel",
        lambda: patches.altered(
            operator_actions, "cancel", lease_epoch=lambda job, _: job.lease_epoch
        ),
        "storm",
        93,
    ),
    Mutant(
        "no-backoff",
        "the back-off before a retry",
        lambda: patches.altered(run_outcome, "_run_failed", not_before=lambda *_: None),
        "calm",
        0,
    ),
    Mutant(
        "no-limit",
        "counting attempts",
        lambda: patches.altered(run_outcome, "_run_failed", attempts=lambda job, _: job.attempts),
        "calm",
        13,
    ),
    Mutant(
        "no-checkpoint",
        "keeping the checkpoint at expiry",
        lambda: patches.altered(lease, "expire", checkpoint=lambda *_: None),
        "storm",
        2,
    ),
    Mutant(
        "no-unblocker",
        "the unblocker's subscription to the change feed",
        lambda: patched((Unblocker, "notice", patches.do_nothing)),
        "calm",
        2,
    ),
    Mutant(
        "no-dep-guard",
        "the guards on dependencies in the submit's commit",
        patches.no_dep_guards,
        "race",
        60,
    ),
    Mutant(
        "no-extension",
        "the extension of leases after an outage",
        patches.no_gap_extension,
        "store",
        5,
    ),
    Mutant("no-reaper", "the reaper", patches.no_reaper, "interventions", 2),
    Mutant(
        "no-reread",
        "reading a job again after a commit with unknown result",
        lambda: patched((Index, "mark_stale", patches.do_nothing)),
        "storm",
        37,
    ),
    Mutant(
        "no-withdrawal", "the withdrawal of expired offers", patches.no_withdrawal, "network", 0
    ),
    Mutant(
        "no-held-seats",
        "keeping seats and locks until the worker of a cancelled job stops",
        patches.free_seats_at_cancel,
        "race",
        12,
    ),
    Mutant(
        "no-feed-position",
        "the position of a follower in the feed",
        patches.skip_first_event,
        "network",
        4,
    ),
    Mutant(
        "no-restream",
        "repeated records that a stream is open",
        patches.streams_recorded_once,
        "storm",
        187,
    ),
    Mutant(
        "no-accept-limit",
        "the limit of attempts to accept an offer",
        lambda: patched((claims, "ACCEPT_TRIES_MAX", 10**9)),
        "race",
        58,
    ),
    Mutant(
        "no-booking", "booking costs in the report's commit", patches.no_budget_booking, "calm", 3
    ),
    Mutant(
        "no-budget-cas",
        "compare-and-set on a budget in the store",
        patches.budgets_overwritten,
        "race",
        90,
    ),
    Mutant(
        "no-budget-guard",
        "the guard that no budget exists",
        patches.revisions_ignored("budget"),
        "race",
        28,
    ),
    Mutant(
        "no-rank",
        "the priority check of preemption",
        patches.preempts_any_job,
        "calm",
        8,
    ),
    Mutant(
        "no-preemption-limit",
        "the limit of preemptions per job",
        lambda: patched((running_jobs, "PREEMPTIONS_MAX", 10**9)),
        "calm",
        469,
    ),
    Mutant(
        "no-queue-position",
        "the queue position of a preempted job",
        lambda: patches.altered(run_outcome, "hand_back", front=lambda job, _: job.front),
        "calm",
        1,
    ),
    Mutant(
        "no-composite-guard",
        "the guard on the composite in the grant's commit",
        patches.no_composite_guard,
        "race",
        283,
    ),
    Mutant(
        "no-phases",
        "the phases of a composite",
        lambda: patched((submission, "admits", _always)),
        "calm",
        1,
    ),
    Mutant(
        "no-charge",
        "booking costs on a composite's budget",
        patches.no_composite_booking,
        "calm",
        8,
    ),
    Mutant(
        "no-composites",
        "the duty that advances composites",
        lambda: patched((CompositeAdvancer, "notice", patches.do_nothing)),
        "calm",
        1,
    ),
    Mutant(
        "no-longer",
        "the rule that a renewal never shortens a lease",
        lease_patches.renewals_shorten,
        "calm",
        0,
    ),
    Mutant(
        "no-memory",
        "the rule that a fenced worker is noted once",
        lease_patches.fenced_every_time,
        "storm",
        2,
    ),
    Mutant(
        "no-steady",
        "the time since boot in the coordinator's clock",
        patches.clock_stands_still,
        "pauses",
        0,
    ),
    Mutant(
        "no-ceiling",
        "the budget ceiling",
        patches.ceiling_ignored,
        "calm",
        5,
    ),
    Mutant(
        "no-newest-commit",
        "the rule that a decision names the newest commit",
        lambda: patched((operator_actions, "require_commit", lambda job, _: job.head)),
        "calm",
        1,
    ),
    Mutant(
        "no-exclusion",
        "the exclusion of a factory that gave a job back",
        lease_patches.no_exclusion,
        "calm",
        0,
    ),
    Mutant(
        "no-deps",
        "waiting until dependencies have shipped",
        lambda: patched((submission, "is_satisfied", lambda dep, _: dep.stage != Stage.QUEUED)),
        "calm",
        23,
    ),
    Mutant(
        "no-instance",
        "the end of leases that a new process does not take up",
        lease_patches.no_reconciliation,
        "crashes",
        0,
    ),
    Mutant(
        "no-digest",
        "the comparison of a repeated request with the first",
        lambda: patched((committer, "_require_same_request", lambda answer, _: answer)),
        "calm",
        0,
    ),
    Mutant(
        "no-poison",
        "the end of a job that kills its hosts",
        lambda: patched((lease, "is_poison", lambda *_: False)),
        "calm",
        4,
    ),
    Mutant(
        "no-addressee",
        "the rule that an offer is for one factory",
        lease_patches.offers_to_anybody,
        "calm",
        6,
    ),
    Mutant(
        "no-preemption-end",
        "the end of a lease 60 seconds after a preemption request",
        lease_patches.preemptions_without_end,
        "calm",
        35,
    ),
    Mutant("no-next-tick", "the next tick of a schedule", lease_patches.ticks_repeated, "calm", 5),
    Mutant(
        "no-single-count",
        "counting an attempt only once",
        lambda: patches.altered(
            run_outcome, "_run_failed", attempts=lambda _, now: now.attempts + 1
        ),
        "calm",
        83,
    ),
)
