"""The vocabulary of event types, in a job's history and in the fleet's audit log."""

SUBMITTED = "submitted"
BLOCKED = "blocked"
UNBLOCKED = "unblocked"
OFFERED = "offered"
OFFER_EXPIRED = "offer_expired"
ASSIGNED = "assigned"
TAKEN_UP = "taken_up"
STARTED = "started"
CHECKPOINT = "checkpoint"
USAGE = "usage"
VERIFY_PASSED = "verify_passed"
VERIFY_FAILED = "verify_failed"
DIFF = "diff"
SCOPE_WARNING = "scope_warning"
SCOPE_VIOLATION = "scope_violation"
SCOPE_OVERRIDDEN = "scope_overridden"
NOTE = "note"
ARTIFACT_ADDED = "artifact_added"
DIFF_ADDED = "diff_added"
ARTIFACT_DELETED = "artifact_deleted"
TRACKER_ECHOED = "tracker_echoed"
REVIEW_REQUESTED = "review_requested"
REVIEW_ASKED = "review_asked"
REVIEW_SUBMITTED = "review_submitted"
APPROVED = "approved"
REJECTED = "rejected"
CHANGES_REQUESTED = "changes_requested"
TESTED = "tested"
SHIP_REQUESTED = "ship_requested"
SHIP_INTENT = "ship_intent"
SHIP_FAILED = "ship_failed"
DEFECT_REPORTED = "defect_reported"
SHIPPED = "shipped"
RETRY_SCHEDULED = "retry_scheduled"
RATE_LIMITED = "rate_limited"
PREEMPT_REQUESTED = "preempt_requested"
PREEMPTING = "preempting"
PREEMPTED = "preempted"
RELEASED = "released"
LEASE_EXPIRED = "lease_expired"
FENCED = "fenced"
FAILED = "failed"
BUDGET_EXCEEDED = "budget_exceeded"
DEAD_LETTERED = "dead_lettered"
REQUEUED = "requeued"
PROMOTED = "promoted"
CANCELLED = "cancelled"
SUPERSEDED = "superseded"
PLANNED = "planned"
ADOPTED = "adopted"
CEILING_REACHED = "ceiling_reached"
PLANNING = "planning"
PHASE_WAITING = "phase_waiting"
PHASE_OPENED = "phase_opened"
CHILDREN_SHIPPED = "children_shipped"
CHILDREN_ENDED = "children_ended"
TICKED = "ticked"
EDITED = "edited"
REBUILT = "rebuilt"
TICK_SKIPPED = "tick_skipped"

HALTED = "halted"
RESUMED = "resumed"
TOKEN_MADE = "token_made"  # noqa: S105 - the name of an event
TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
TOKEN_ROTATED = "token_rotated"  # noqa: S105 - the name of an event
SIGNED_IN = "signed_in"
SIGNED_OUT = "signed_out"
TOKEN_GUESSING = "token_guessing"  # noqa: S105 - the name of an event
ENROLLMENT_MADE = "enrollment_made"
ENROLLMENT_WITHDRAWN = "enrollment_withdrawn"
FACTORY_ENROLLED = "factory_enrolled"
FACTORY_CHANGED = "factory_changed"
FACTORY_STREAM = "factory_stream"
FACTORY_DRAINING = "factory_draining"
FACTORY_RESUMED = "factory_resumed"
FACTORY_DEREGISTERED = "factory_deregistered"
JOB_ARCHIVED = "job_archived"
JOB_DELETED = "job_deleted"
LINK_MADE = "link_made"
BUDGET_CHANGED = "budget_changed"
BUDGET_WARNING = "budget_warning"
BUDGET_PAUSED = "budget_paused"
BUDGET_RESUMED = "budget_resumed"
PRODUCT_CHANGED = "product_changed"
ROUTING_CHANGED = "routing_changed"
ROUTING_TRIPPED = "routing_tripped"
DISPATCH_CHANGED = "dispatch_changed"
WEBHOOK_REFUSED = "webhook_refused"
PROFILE_SAVED = "profile_saved"

JOB_EVENTS = {
    SUBMITTED: "the job was accepted",
    BLOCKED: "it waits for the named dependencies, or for its phase to open",
    UNBLOCKED: "all of its dependencies are satisfied",
    OFFERED: "the dispatcher offered it to a factory",
    OFFER_EXPIRED: "the offer lapsed, was declined or was withdrawn",
    ASSIGNED: (
        "a factory got the lease; records the winner, the runners-up and why other"
        " factories were rejected"
    ),
    TAKEN_UP: "a restarted factory resumed the run",
    STARTED: "the factory began the run; for a composite: its first child began",
    CHECKPOINT: "the work in progress was saved as a commit",
    USAGE: "tokens, cost and tool calls of the run so far",
    VERIFY_PASSED: "the verify gate passed",
    VERIFY_FAILED: "the verify gate failed",
    DIFF: "summary of what the run changed",
    SCOPE_WARNING: "the run changed files outside its scope",
    SCOPE_VIOLATION: "the run failed because it left its scope",
    SCOPE_OVERRIDDEN: "a reviewer accepted work that had left its scope",
    NOTE: "a remark by the worker",
    ARTIFACT_ADDED: "a run or a person added an artifact",
    DIFF_ADDED: "the run uploaded its diff for review",
    ARTIFACT_DELETED: "an artifact was deleted",
    TRACKER_ECHOED: "a stage was written to its ticket, or could not be",
    REVIEW_REQUESTED: "the run succeeded and needs a review",
    REVIEW_ASKED: "someone requested a review; names the reviewers and the quorum",
    REVIEW_SUBMITTED: "a reviewer submitted a decision",
    APPROVED: "enough reviewers approved",
    REJECTED: "a reviewer rejected the work",
    CHANGES_REQUESTED: "a reviewer sent it back with a comment",
    TESTED: "the run succeeded and needs no review",
    SHIP_REQUESTED: "a person or the ship policy asked to ship it",
    SHIP_INTENT: (
        "the factory is about to change something outside, such as a branch or a pull request"
    ),
    SHIP_FAILED: "shipping failed and left nothing half done",
    DEFECT_REPORTED: "a defect was found after it had shipped: a revert, a bug ticket or a report",
    SHIPPED: "the work is delivered",
    RETRY_SCHEDULED: "the run failed and will be retried",
    RATE_LIMITED: "the engine's limit is used up on that factory; the job goes elsewhere or waits",
    PREEMPT_REQUESTED: "the worker was asked to checkpoint and hand the job back",
    PREEMPTING: "no seat was free for it, so a less urgent job was asked to hand its seat back",
    PREEMPTED: "the worker handed it back after a preemption request",
    RELEASED: "it was handed back, or taken from its factory",
    LEASE_EXPIRED: "the factory did not renew the lease in time",
    FENCED: "a write under a stale lease was refused",
    FAILED: "it failed for good",
    BUDGET_EXCEEDED: (
        "the run exceeded its job's budget; without a job: the product's budget is spent"
    ),
    DEAD_LETTERED: (
        "its retries are exhausted, or too many of its leases were lost; an operator has to decide"
    ),
    REQUEUED: "an operator queued it again",
    PROMOTED: "an operator moved it to the front of its priority class",
    CANCELLED: "an operator cancelled it",
    SUPERSEDED: "a newer submission with the same key replaced it",
    PLANNED: "a composite got children: a new revision of its plan",
    ADOPTED: (
        "it had already shipped unchanged, and became part of a composite that was submitted again"
    ),
    CEILING_REACHED: "the budget of a composite is spent: none of its descendants starts any more",
    PLANNING: "a composite got a planner, whose plan will become its children",
    PHASE_WAITING: "a phase of a composite has shipped; the next phase needs approval",
    PHASE_OPENED: "the children of the next phase of a composite may start",
    CHILDREN_SHIPPED: "all children of a composite have shipped",
    CHILDREN_ENDED: "no descendant of a finished composite is active any more",
    TICKED: "a schedule submitted a new copy",
    EDITED: (
        "its file in the folder queue was edited before the first run, and the new content applies"
    ),
    REBUILT: "the folder queue had lost its record and rebuilt it from the column its file is in",
    TICK_SKIPPED: "a tick of the schedule was skipped because the previous copy still runs",
}
"""Events of one job, numbered by `seq` from 1 without gaps."""

FLEET_EVENTS = {
    HALTED: "the kill switch was turned on, for one product or for all",
    RESUMED: "the kill switch was turned off",
    TOKEN_MADE: "a token was created",
    TOKEN_REVOKED: "a token was revoked",
    TOKEN_ROTATED: "a factory's token was replaced",
    SIGNED_IN: "a user signed in with a browser",
    SIGNED_OUT: "a user signed out of a browser",
    TOKEN_GUESSING: "too many wrong tokens were presented; at most one event a minute",
    ENROLLMENT_MADE: "an admin created an enrollment for a machine",
    ENROLLMENT_WITHDRAWN: "an enrollment was withdrawn",
    FACTORY_ENROLLED: "a machine became a factory",
    FACTORY_CHANGED: "a factory changed what it advertises",
    FACTORY_STREAM: "a factory's offer stream was opened or closed",
    FACTORY_DRAINING: "a factory is draining: it accepts no new work",
    FACTORY_RESUMED: "a drained factory accepts work again",
    FACTORY_DEREGISTERED: "a factory was removed",
    JOB_ARCHIVED: "a finished job was moved to the archive after its retention time",
    JOB_DELETED: "a finished job was deleted after its retention time",
    LINK_MADE: "a temporary link to one artifact was created",
    BUDGET_CHANGED: "a product's budget was set",
    BUDGET_WARNING: "50, 80 or 95 % of a product's budget is spent",
    BUDGET_PAUSED: "a product was paused",
    BUDGET_RESUMED: "a product's pause was lifted",
    PRODUCT_CHANGED: "a product was created or changed",
    ROUTING_CHANGED: "the learned routing of a product was reconfigured",
    ROUTING_TRIPPED: "a guardrail switched a product back from learned routing",
    DISPATCH_CHANGED: "the dispatch mode of a product was changed",
    WEBHOOK_REFUSED: "webhook deliveries had no valid signature; at most one event a minute",
    PROFILE_SAVED: "a profile got a new version",
}
"""Events of the audit log: they concern no single job."""

ACCESS_EVENTS = frozenset(
    {
        TOKEN_MADE,
        TOKEN_REVOKED,
        TOKEN_ROTATED,
        SIGNED_IN,
        SIGNED_OUT,
        TOKEN_GUESSING,
        ENROLLMENT_MADE,
        ENROLLMENT_WITHDRAWN,
        WEBHOOK_REFUSED,
    }
)
"""Events that say who has access: for those who may read the audit log."""

EVENT_TYPES = JOB_EVENTS | FLEET_EVENTS
