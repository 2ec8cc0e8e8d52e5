"""Plans: the planner job of a composite, its plan file, and accepting or refusing the plan."""

from msgspec.structs import replace

from gigafactory.domain.errors import Fault, Invalid, Refused
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import PLANNER, Job, Result, Stage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.decoder import DecodeContext
from gigafactory.domain.manifest.frontmatter import parse_yaml
from gigafactory.domain.manifest.job_file import decode_children
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.manifest.yaml_node import Scalar

PLAN_FILE = ".aq/plan.yaml"
"""The plan file in the planner's worktree."""
PLAN_BYTES_MAX = 4 * 1024 * 1024
SUCCESS = frozenset({Stage.REVIEW, Stage.TESTING})
FAULTS_SHOWN_MAX = 10
REASON_CHARS_MAX = 4_000

_SENT_BACK_PREFIX = f"Your plan in {PLAN_FILE}"
_SENT_BACK = f"{_SENT_BACK_PREFIX} was refused; nothing of it was applied."


def planner_for(file: JobFile) -> JobFile | None:
    """Return the planner job of a composite with the planner profile; None for other jobs.

    It inherits repo and engine settings of the composite, but not its gates, budget or identity.
    """
    goal = file.manifest
    profile = (goal.profile or "").partition("@")[0]
    if goal.kind != "composite" or goal.children or profile != PLANNER:
        return None
    manifest = replace(
        goal,
        name=None,
        title=f"Plan: {goal.title or goal.name or 'a roadmap'}",
        product=None,
        kind=None,
        verify=None,
        deps=(),
        deps_mode=None,
        on_dep_failure=None,
        budget=None,
        ship=None,
        ship_policy=None,
        merge_style=None,
        wait_merge=None,
        lock=None,
        allowed_scope=(),
        artifacts=(),
        idempotency_key=None,
        tracker_item=None,
        parent=None,
        phase=None,
    )
    return JobFile(manifest, file.body)


def parse_plan(data: bytes) -> tuple[JobFile, ...]:
    """Parse the jobs of a plan file; Invalid lists every fault with its field and line."""
    if len(data) > PLAN_BYTES_MAX:
        message = f"found {len(data)} bytes; expected at most {PLAN_BYTES_MAX} (4 MiB)"
        raise Invalid("the plan", [Fault("", message)])
    node, faults = parse_yaml(data)
    context = DecodeContext(faults=faults)
    children = decode_children(node or Scalar("", "null", 1), "plan", context) if not faults else ()
    context.raise_faults("the plan")
    if not children:
        raise Invalid("the plan", [Fault("plan", "found no job; expected a list of at least one")])
    return tuple(JobFile(child.manifest, child.body) for child in children)


def refuse_planner_name(planner: Job, files: tuple[JobFile, ...]) -> None:
    """Refuse a plan that contains a job named like its planner.

    Raises Invalid.
    """
    faults = [
        Fault(f"plan[{number}].name", f"found {planner.name!r}, which is the planner itself")
        for number, file in enumerate(files)
        if file.manifest.name == planner.name
    ]
    if faults:
        raise Invalid("the plan", faults)


def accept_plan(planner: Job, report: Report, jobs: int) -> Report:
    """Return the report of a planner with a valid plan; it counts as a passed verify."""
    if planner.terms.verify:
        return report
    return replace(report, verify={"passed": True, "plan": PLAN_FILE, "jobs": jobs})


def refuse_plan(planner: Job, report: Report, why: Refused) -> Report:
    """Return the report of a planner with an invalid plan: a failed verify."""
    reason = _explain(why)
    if not planner.terms.verify:
        verify = {"passed": False, "plan": PLAN_FILE, "reason": reason}
        report = replace(report, verify=verify)
    return replace(report, stage=Stage.FAILED, result=Result.VERIFY_FAILED, reason=reason)


def send_back(change: JobChange, why: str) -> JobChange:
    """Add the reason of the refusal to the instructions of a planner that is retried."""
    job = change.after
    if job.stage is not Stage.QUEUED:
        return change
    others = (text for text in job.follow_ups if not text.startswith(_SENT_BACK_PREFIX))
    follow_ups = (*others, f"{_SENT_BACK}\n\n{why}")
    return replace(change, after=replace(job, follow_ups=follow_ups))


def _explain(why: Refused) -> str:
    if isinstance(why, Invalid) and len(why.faults) > FAULTS_SHOWN_MAX:
        more = Fault("", f"and {len(why.faults) - FAULTS_SHOWN_MAX} faults more")
        why = Invalid(why.what, (*why.faults[:FAULTS_SHOWN_MAX], more))
    reason = why.detail
    if not isinstance(why, Invalid):
        reason = f"the plan cannot be applied: {reason}"
    return reason if len(reason) <= REASON_CHARS_MAX else reason[:REASON_CHARS_MAX] + "…"
