"""One command for every action of people in the lifecycle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gigafactory.cli.folder.target import FOLDER, act_here, folder_target
from gigafactory.cli.output.text import colour_stage, note, say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import jobs as calls
from gigafactory.client.transport.call import ApiCall
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.wire.jobs import JobView

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

REASON = click.option("--reason", "-m", default="", help="Reason; recorded in the job's events.")
NEEDED = click.option("--reason", "-m", required=True, help="Reason; recorded in the job's events.")
COMMENT = click.option(
    "--comment", "-m", "reason", required=True, help="What the agent should change."
)
COMMIT = click.option(
    "--commit",
    help="Commit that you reviewed; refused if there is a newer one. Default: the current one.",
)
REMARK = click.option(
    "--comment", "-m", default="", help="What to look at; recorded in the events."
)
REVIEWERS = click.option(
    "--reviewer",
    "-r",
    "reviewers",
    multiple=True,
    metavar="NAME",
    help="Reviewer to ask; repeatable.",
)
QUORUM = click.option(
    "--quorum", type=click.IntRange(min=1), metavar="N", help="Number of approvals needed."
)
FRESH = click.option("--fresh", is_flag=True, help="Discard the work so far and start over.")


def _action(
    name: str,
    text: str,
    *decorators: Decorator,
    call: Callable[..., ApiCall[JobView]] | None = None,
) -> click.Command:
    send = call or (lambda job, **options: calls.act(job, name, **options))

    # The options of this action become keyword arguments of its call.
    def act(
        session: Session,
        *,
        jobs: tuple[str, ...],
        folder: Path | None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        target_folder = folder_target(session, folder)
        for job in jobs:
            if target_folder is not None:
                act_here(session, target_folder, job, name, options)
            else:
                session.answer(send(job, **_at_shown_commit(session, job, options)), _show)

    command: Callable[..., None] = FOLDER(for_fleet(act))
    for decorator in reversed(decorators):
        command = decorator(command)
    *others, last = sorted(ACTIONS[name])
    stages = f"{', '.join(others)} or {last}" if others else last
    text = f"{text}\n\nFor jobs in {stages}. Several are processed one after the other."
    argument = click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
    return click.command(name, help=text)(argument(command))


def _at_shown_commit(session: Session, job: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a decision with the commit that it is about, which is shown."""
    if "commit" not in options or options["commit"] is not None:
        return options
    job_view = session.client.send(calls.get(job))
    if job_view.checkpoint is None:
        return options
    note(f"{job_view.name} is at commit {job_view.checkpoint.commit}")
    return options | {"commit": job_view.checkpoint.commit}


def _show(job: JobView) -> None:
    say(f"{job.id}  {job.name}  {colour_stage(job.stage)}")
    if job.reason:
        note(f"  {job.reason}")


approve = _action("approve", "Approve the work of a job in review.", REASON, COMMIT)
reject = _action("reject", "Reject the work of a job; it ends as failed.", NEEDED, COMMIT)
request_changes = _action(
    "request-changes", "Send a job back to the agent with your comment.", COMMENT, COMMIT
)
request_review = _action(
    "request-review",
    "Request a review of a job from the named reviewers, or any.",
    *(REVIEWERS, QUORUM, REMARK),
    call=calls.request_review,
)
ship = _action("ship", "Ship the work of a job.", COMMIT)
requeue = _action("requeue", "Queue a finished job again.", FRESH)
cancel = _action("cancel", "Cancel a job.", REASON)
promote = _action("promote", "Move a job to the front of its priority.")
preempt = _action("preempt", "Ask the factory to save a checkpoint and hand the job back.", REASON)
release = _action("release", "Take a job from its factory at once and queue it again.", REASON)
override_scope = _action("override-scope", "Send work that violated its scope to review.", NEEDED)
