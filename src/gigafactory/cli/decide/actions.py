"""What people do to jobs: one command for every action of the lifecycle's table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gigafactory.cli.folder.target import FOLDER, act_here, chosen
from gigafactory.cli.output.text import note, say, staged
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import jobs as calls
from gigafactory.client.transport.call import Call
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.wire.jobs import JobView

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

REASON = click.option("--reason", "-m", default="", help="Why; it stands in the job's story.")
NEEDED = click.option("--reason", "-m", required=True, help="Why; it stands in the job's story.")
COMMENT = click.option(
    "--comment", "-m", "reason", required=True, help="What the agent is to change."
)
COMMIT = click.option("--commit", help="The commit that you looked at; a newer one voids this.")
REMARK = click.option(
    "--comment", "-m", default="", help="What to look at; it stands in the story."
)
REVIEWERS = click.option(
    "--reviewer", "-r", "reviewers", multiple=True, metavar="NAME", help="Whom to ask; repeatable."
)
QUORUM = click.option(
    "--quorum", type=click.IntRange(min=1), metavar="N", help="How many of them must agree."
)
FRESH = click.option("--fresh", is_flag=True, help="Forget the work so far; begin anew.")


def _action(
    name: str, text: str, *options: Decorator, call: Callable[..., Call[JobView]] | None = None
) -> click.Command:
    send = call or (lambda job, **wish: calls.act(job, name, **wish))

    # The options that were given to this action are the parts of its wish.
    def act(
        session: Session,
        *,
        jobs: tuple[str, ...],
        folder: Path | None,
        **wish: Any,  # noqa: ANN401
    ) -> None:
        here = chosen(session, folder)
        for job in jobs:
            if here is not None:
                act_here(session, here, job, name, wish)
            else:
                session.answer(send(job, **wish), _show)

    command: Callable[..., None] = FOLDER(for_fleet(act))
    for option in reversed(options):
        command = option(command)
    stages = ", ".join(stage for stage in sorted(ACTIONS[name]))
    text = f"{text}\n\nFor jobs that are {stages}. Several are done one after the other."
    argument = click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
    return click.command(name, help=text)(argument(command))


def _show(job: JobView) -> None:
    say(f"{job.id}  {job.name}  {staged(job.stage)}")
    if job.reason:
        note(f"  {job.reason}")


approve = _action("approve", "Approve the work of a job that is in review.", REASON, COMMIT)
reject = _action("reject", "Reject the work of a job: it ends as failed.", NEEDED, COMMIT)
request_changes = _action(
    "request-changes", "Send a job back to the agent with your comment.", COMMENT, COMMIT
)
request_review = _action(
    "request-review",
    "Ask for a review of a job, of those named or of any reviewer.",
    *(REVIEWERS, QUORUM, REMARK),
    call=calls.request_review,
)
ship = _action("ship", "Have a factory ship the work of a job.", COMMIT)
requeue = _action("requeue", "Queue a job that had ended again.", FRESH)
cancel = _action("cancel", "End a job, whatever it is doing.", REASON)
promote = _action("promote", "Put a job before the others of its priority.")
preempt = _action("preempt", "Ask the factory to checkpoint a job and hand it back.", REASON)
release = _action("release", "Take a job from its factory at once, and queue it again.", REASON)
override_scope = _action(
    "override-scope", "Send work that left its scope to review after all.", NEEDED
)
