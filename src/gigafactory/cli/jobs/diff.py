"""`aq diff`: the changes of a job, coloured on a terminal."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, folder_target, queue_in
from gigafactory.cli.output.text import note, say, say_json, visible
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import artifacts as calls
from gigafactory.domain.job.diff import FileChange, WorkDiff

BAR_MAX = 40
HEADS = ("diff ", "index ", "--- ", "+++ ", "old mode", "new mode", "rename ", "similarity ")


@click.command()
@click.argument("job")
@click.option("--stat", is_flag=True, help="Only files and line counts.")
@click.option("--raw", is_flag=True, help="Print the raw bytes, for `git apply`.")
@FOLDER
@for_fleet
def diff(session: Session, *, job: str, stat: bool, raw: bool, folder: Path | None) -> None:
    """Print the changes of a job's newest run, and on stderr the commit to decide on.

    Control, invisible and direction-changing characters are spelled out, unless --raw is given.
    Read it with `aq diff JOB | less`.
    """
    target_folder = folder_target(session, folder)
    if target_folder is not None:
        from gigafactory.folder.queue.logs import diff_of

        work_diff = diff_of(queue_in(session, target_folder), job)
    else:
        work_diff = session.client.send(calls.diff(job))
    if session.as_json:
        say_json(msgspec.json.encode(work_diff))
    elif raw:
        sys.stdout.buffer.write(work_diff.text.encode())
        sys.stdout.buffer.flush()
    else:
        for line in _stat(work_diff) if stat else _colour(work_diff.text):
            say(line)
        note(
            f"commit {visible(work_diff.commit)} on {visible(work_diff.base)}: {work_diff.summary}"
        )


def _colour(text: str) -> Iterator[str]:
    # Inside a hunk, a line that looks like a header is content.
    left = 0
    for line in text.split("\n")[:-1]:
        safe = visible(line)
        if left <= 0 and line.startswith("@@ "):
            left = _lines_of(line)
            yield click.style(safe, fg="cyan")
        elif left <= 0:
            yield click.style(safe, bold=True) if line.startswith(HEADS) else safe
        else:
            left -= {" ": 2, "+": 1, "-": 1}.get(line[:1], 0)
            yield click.style(safe, fg={"+": "green", "-": "red"}.get(line[:1]))


def _lines_of(head: str) -> int:
    """Return the number of lines of both sides of a hunk from its header."""
    sides = [part.partition(",")[2] or "1" for part in head.split(" ")[1:3]]
    return sum(int(count) for count in sides if count.isdecimal())


def _stat(diff: WorkDiff) -> Iterator[str]:
    names = [_name(file) for file in diff.files]
    width = max(map(len, names), default=0)
    most = max((file.added + file.deleted for file in diff.files), default=0)
    for name, file in zip(names, diff.files, strict=True):
        yield f"{name:<{width}}  {_counts(file, most)}"
    if (left_out := diff.files_changed - len(diff.files)) > 0:
        yield f"… and {left_out} more"


def _name(file: FileChange) -> str:
    return visible(f"{file.old_path} → {file.path}" if file.old_path else file.path)


def _counts(file: FileChange, most: int) -> str:
    if file.binary:
        return "binary"
    share = min(1.0, BAR_MAX / most) if most else 0.0
    added, deleted = (_bar(count, share) for count in (file.added, file.deleted))
    bars = click.style("+" * added, fg="green") + click.style("-" * deleted, fg="red")
    return f"{file.added + file.deleted:>5}  {bars}"


def _bar(count: int, share: float) -> int:
    return max(1, round(count * share)) if count else 0
