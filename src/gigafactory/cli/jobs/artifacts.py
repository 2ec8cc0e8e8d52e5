"""`aq artifacts`: the files that a job has left behind, to list, fetch, add, share and delete."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, chosen, queue_in
from gigafactory.cli.output.progress import watched
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
    "--get", metavar="NAME", help="Download the newest of this name, or the one of an id."
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Where to; `-` is stdout. With --get."
)
@click.option("--link", metavar="NAME", help="Print an address that opens it for 15 minutes.")
@click.option(
    "--add", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Add this file."
)
@click.option(
    "--delete", metavar="NAME", help="Delete the newest of this name, or the one of an id."
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
    """List the files that the runs of a job have left behind, or do something with one.

    A file is downloaded into this folder under its own name, unless -o says otherwise; it is there
    only when all of it has come, and its hash was right.
    """
    if sum(given is not None for given in (get, link, add, delete)) > 1:
        raise click.UsageError("one of --get, --link, --add and --delete at a time")
    if output is not None and get is None:
        raise click.UsageError("-o goes with --get")
    here = chosen(session, folder)
    if here is not None:
        if get or link or add or delete:
            raise click.UsageError("a folder keeps them as files, in artifacts/: use those")
        _list_files(session, here, job)
    elif get is not None:
        _get(session, _named(session, job, get), output)
    elif link is not None:
        _link(session, _named(session, job, link))
    elif add is not None:
        _add(session, job, add)
    elif delete is not None:
        session.answer(calls.delete(_named(session, job, delete).id), lambda _: None)
    else:
        session.answer(calls.of_job(job), lambda found: show(found.artifacts, job))


def show(found: Iterable[ArtifactView], job: str) -> None:
    """Print artifacts in columns."""
    rows = [
        (each.id, format_size(each.size), each.media_type, format_age(each.created_at), each.name)
        for each in found
    ]
    if rows:
        table(("ID", "SIZE", "TYPE", "AGE", "NAME"), rows)
    else:
        note(f"{job} has left no files; a job names them in `artifacts`")


def _named(session: Session, job: str, wanted: str) -> ArtifactView:
    """The artifact of this id, or the newest of this name.

    Raises NotFound.
    """
    found = session.client.send(calls.of_job(job)).artifacts
    named = [each for each in found if wanted in (each.id, each.name)]
    if not named:
        known = ", ".join(dict.fromkeys(each.name for each in found))
        raise NotFound("artifact", wanted, f"there are {known}" if known else "the job has none")
    return named[-1]


def _get(session: Session, wanted: ArtifactView, output: Path | None) -> None:
    coming = session.client.pieces(calls.content(wanted.id))
    pieces = watched(coming, wanted.name, wanted.size)
    if output == STDOUT:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = output or Path(wanted.name.rpartition("/")[2])
    if output is None and target.exists():
        raise Conflict(f"{target} is there already; name another place with -o")
    try:
        write_atomically(target, _verified(pieces, wanted))
    except OSError as error:
        fault = Fault("--output", f"{target} cannot be written: {error.strerror}")
        raise Invalid("the place", [fault]) from None
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
    from gigafactory.client.transport.upload import File, look_at, media_type_of

    class Watched(File, frozen=True):
        def pieces(self) -> Iterator[bytes]:
            return watched(super().pieces(), self.path.name, self.size)

    going = Watched(*msgspec.structs.astuple(look_at(file)))
    call = calls.add(job, going, name=file.name, media_type=media_type_of(file.name))
    session.answer(call, lambda made: show((made,), job))


def _list_files(session: Session, here: Path, job: str) -> None:
    queue = queue_in(session, here)
    with queue.open() as desk:
        kept = desk.lookup(job)
    root = queue.board.artifacts(kept.key)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    if session.as_json:
        told = [
            {"name": str(path.relative_to(root)), "size": path.stat().st_size, "file": str(path)}
            for path in files
        ]
        say_json(msgspec.json.encode({"artifacts": told}))
    elif files:
        table(("SIZE", "FILE"), [(format_size(path.stat().st_size), path) for path in files])
    else:
        note(f"{job} has left no files; a job names them in `artifacts`")
