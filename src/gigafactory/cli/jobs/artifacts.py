"""`aq artifacts`: list, download, add, share and delete artifacts of a job."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, folder_target, queue_in
from gigafactory.cli.output.progress import with_progress
from gigafactory.cli.output.text import note, say, say_json, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import artifacts as calls
from gigafactory.domain.errors import Conflict, Fault, Invalid, NotFound
from gigafactory.system.atomic_file import write_atomically
from gigafactory.system.formatting import format_age, format_size
from gigafactory.wire.files import ArtifactView, LinkView

STDOUT = Path("-")


@click.command()
@click.argument("job")
@click.option(
    "--get", metavar="NAME", help="Download the newest artifact with this name, or by id."
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Target file for --get; `-` is stdout."
)
@click.option("--link", metavar="NAME", help="Print a link that works for 15 minutes.")
@click.option(
    "--add", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Add this file."
)
@click.option(
    "--delete", metavar="NAME", help="Delete the newest artifact with this name, or by id."
)
@FOLDER
@for_fleet
def artifacts(
    session: Session,
    *,
    job: str,
    get: str | None,
    output: Path | None,
    link: str | None,
    add: Path | None,
    delete: str | None,
    folder: Path | None,
) -> None:
    """List the artifacts of a job, or act on one.

    --get saves the file under its own name in this folder, unless -o is given; the file appears
    only when it is complete and its hash matches.
    """
    if sum(given is not None for given in (get, link, add, delete)) > 1:
        raise click.UsageError("use only one of --get, --link, --add and --delete")
    if output is not None and get is None:
        raise click.UsageError("-o needs --get")
    target_folder = folder_target(session, folder)
    if target_folder is not None:
        if get or link or add or delete:
            raise click.UsageError("in a folder queue, artifacts are plain files in artifacts/")
        _list_files(session, target_folder, job)
    elif get is not None:
        _get(session, _find(session, job, get), output)
    elif link is not None:
        _link(session, _find(session, job, link))
    elif add is not None:
        _add(session, job, add)
    elif delete is not None:
        session.answer(calls.delete(_find(session, job, delete).id), lambda _: None)
    else:
        session.answer(calls.of_job(job), lambda view: show(view.artifacts, job))


def show(views: Iterable[ArtifactView], job: str) -> None:
    """Print artifacts in columns."""
    rows = [
        (each.id, format_size(each.size), each.media_type, format_age(each.created_at), each.name)
        for each in views
    ]
    if rows:
        table(("ID", "SIZE", "TYPE", "AGE", "NAME"), rows)
    else:
        note(f"{job} has no artifacts; a job names them in `artifacts`")


def _find(session: Session, job: str, wanted: str) -> ArtifactView:
    """Return the artifact with this id, or the newest with this name; raise NotFound."""
    views = session.client.send(calls.of_job(job)).artifacts
    named = [each for each in views if wanted in (each.id, each.name)]
    if not named:
        artifact_names = ", ".join(dict.fromkeys(each.name for each in views))
        raise NotFound(
            "artifact",
            wanted,
            f"the job has {artifact_names}" if artifact_names else "the job has none",
        )
    return named[-1]


def _get(session: Session, wanted: ArtifactView, output: Path | None) -> None:
    incoming = session.client.pieces(calls.content(wanted.id))
    pieces = with_progress(incoming, wanted.name, wanted.size)
    if output == STDOUT:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = output or Path(wanted.name.rpartition("/")[2])
    if output is None and target.exists():
        raise Conflict(f"{target} already exists; choose another file with -o")
    try:
        write_atomically(target, _verified(pieces, wanted))
    except OSError as error:
        fault = Fault("--output", f"{target} cannot be written: {error.strerror}")
        raise Invalid("the target", [fault]) from None
    if session.as_json:
        say_json(msgspec.json.encode({"file": str(target), "sha256": wanted.sha256}))
    else:
        say(str(target))


def _verified(pieces: Iterable[bytes], wanted: ArtifactView) -> Iterator[bytes]:
    """Pass the pieces on; raise Conflict at the end if their hash is not the listed one."""
    import hashlib

    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != wanted.sha256:
        raise Conflict(f"{wanted.name} arrived damaged and was not saved; try again")


def _link(session: Session, wanted: ArtifactView) -> None:
    def show_link(made: LinkView) -> None:
        say(session.access.url + made.path)

    session.answer(calls.link(wanted.id), show_link)


def _add(session: Session, job: str, file: Path) -> None:
    from gigafactory.client.transport.upload import HashedFile, hash_file, media_type_of

    class FileWithProgress(HashedFile, frozen=True):
        def pieces(self) -> Iterator[bytes]:
            return with_progress(super().pieces(), self.path.name, self.size)

    upload = FileWithProgress(*msgspec.structs.astuple(hash_file(file)))
    call = calls.add(job, upload, name=file.name, media_type=media_type_of(file.name))
    session.answer(call, lambda made: show((made,), job))


def _list_files(session: Session, target_folder: Path, job: str) -> None:
    queue = queue_in(session, target_folder)
    with queue.open() as locked:
        record = locked.lookup(job)
    root = queue.board.artifacts(record.key)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    if session.as_json:
        listed = [
            {"name": str(path.relative_to(root)), "size": path.stat().st_size, "file": str(path)}
            for path in files
        ]
        say_json(msgspec.json.encode({"artifacts": listed}))
    elif files:
        table(("SIZE", "FILE"), [(format_size(path.stat().st_size), path) for path in files])
    else:
        note(f"{job} has no artifacts; a job names them in `artifacts`")
