"""`aq logs`: what a run printed, as it was and as it goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.output import harmless, say, say_json
from gigafactory.cli.queue_folder import FOLDER, chosen, queue_in
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import stories
from gigafactory.client.answers import LogPiece


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Go on while the run does.")
@click.option("--run", "number", help="The run's number or id; the newest by default.")
@click.option("--tail", type=click.IntRange(1), help="Only the last so many bytes.")
@FOLDER
@for_fleet
def logs(
    session: Session,
    *,
    job: str,
    follow: bool,
    number: str | None,
    tail: int | None,
    folder: Path | None,
) -> None:
    """Print the log of a job's run.

    On a terminal, colours are kept and other escapes are taken out; into a pipe, it goes as it is.
    With --json, -f prints one piece {"offset", "text"} a line.
    """
    here = chosen(session, folder)
    if here is not None:
        _print_pieces(session, here, job, run=number, tail=tail, follow=follow)
        return
    if follow:
        _follow(session, stories.log_stream(job, run=number, tail=tail))
        return
    body = session.client.fetch(stories.log(job, run=number, tail=tail))
    if session.as_json:
        say_json(msgspec.json.encode({"text": body.decode(errors="replace")}))
    elif sys.stdout.isatty():
        for line in body.decode(errors="replace").splitlines():
            say(harmless(line))
    else:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()


def _print_pieces(
    session: Session, here: Path, job: str, *, run: str | None, tail: int | None, follow: bool
) -> None:
    from gigafactory.folder.logs import pieces

    found = pieces(queue_in(session, here), job, run=run, tail=tail, follow=follow)
    if session.as_json and not follow:
        text = b"".join(found).decode(errors="replace")
        say_json(msgspec.json.encode({"text": text}))
        return
    offset, rest = 0, ""
    for piece in found:
        text = piece.decode(errors="replace")
        if session.as_json:
            say(msgspec.json.encode({"offset": offset, "text": text}).decode())
            offset += len(piece)
            continue
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            say(harmless(line) if sys.stdout.isatty() else line)
    if rest:
        say(harmless(rest))


def _follow(session: Session, stream: stories.Stream) -> None:
    pieces = _until_end(session, stream)
    if session.as_json:
        for data in pieces:
            say(data)
        return
    rest = ""
    for data in pieces:
        *lines, rest = (rest + msgspec.json.decode(data, type=LogPiece).text).split("\n")
        for line in lines:
            say(harmless(line) if sys.stdout.isatty() else line)
    if rest:
        say(harmless(rest))


def _until_end(session: Session, stream: stories.Stream) -> Iterator[str]:
    for sent in session.client.follow(stream):
        if sent.event == "end":
            return
        yield sent.data
