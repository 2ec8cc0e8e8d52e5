"""`aq logs`: the log of a run, past and live."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, folder_target, queue_in
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import events as stories
from gigafactory.client import jobs
from gigafactory.domain.job.job import Stage
from gigafactory.system.terminal_escapes import keep_colours_only
from gigafactory.wire.files import LogEvent

WAITING = frozenset({Stage.BLOCKED, Stage.QUEUED})


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Follow the log until the run ends.")
@click.option("--run", "number", help="Number or id of the run; default: the newest.")
@click.option("--tail", type=click.IntRange(1), help="Only the last N bytes.")
@click.option("--raw", is_flag=True, help="Print the raw bytes, including escape sequences.")
@FOLDER
@for_fleet
def logs(
    session: Session,
    *,
    job: str,
    follow: bool,
    number: str | None,
    tail: int | None,
    raw: bool,
    folder: Path | None,
) -> None:
    """Print the log of a job's run.

    Colours are kept on a terminal; all other escape sequences are removed, also in a pipe, unless
    --raw is given. With --json, -f prints one {"offset", "text"} per line.
    """
    target_folder = folder_target(session, folder)
    if target_folder is not None:
        _print_pieces(session, target_folder, job, run=number, tail=tail, follow=follow, raw=raw)
        return
    if follow:
        if number is None and not session.as_json:
            _explain_wait(session, job)
        _follow(session, stories.log_stream(job, run=number, tail=tail), raw=raw)
        return
    body = session.client.fetch(stories.log(job, run=number, tail=tail))
    if session.as_json:
        say_json(msgspec.json.encode({"text": body.decode(errors="replace")}))
    elif raw:
        _say_raw(body)
    else:
        _say_lines(iter([body.decode(errors="replace")]))


def _explain_wait(session: Session, job: str) -> None:
    call = jobs.get(job)
    explanation = call.decode(session.client.fetch(call))
    if explanation.stage in WAITING and explanation.lease is None:
        why = stories.explanation(job)
        note(f"{explanation.name} has not started: {why.decode(session.client.fetch(why)).summary}")


def _say_raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _say_lines(pieces: Iterator[str]) -> None:
    """Print complete lines as they arrive."""
    unfinished: list[str] = []
    for piece in pieces:
        *lines, rest = piece.split("\n")
        for line in lines:
            say(keep_colours_only("".join((*unfinished, line))))
            unfinished.clear()
        unfinished.append(rest)
    if any(unfinished):
        say(keep_colours_only("".join(unfinished)))


def _print_pieces(
    session: Session,
    target_folder: Path,
    job: str,
    *,
    run: str | None,
    tail: int | None,
    follow: bool,
    raw: bool,
) -> None:
    from gigafactory.folder.queue.logs import pieces

    log_pieces = pieces(queue_in(session, target_folder), job, run=run, tail=tail, follow=follow)
    if session.as_json and not follow:
        text = b"".join(log_pieces).decode(errors="replace")
        say_json(msgspec.json.encode({"text": text}))
        return
    if session.as_json:
        offset = 0
        for piece in log_pieces:
            text = piece.decode(errors="replace")
            say(msgspec.json.encode({"offset": offset, "text": text}).decode())
            offset += len(piece)
    elif raw:
        for piece in log_pieces:
            _say_raw(piece)
    else:
        _say_lines(_decode(log_pieces))


def _decode(pieces: Iterator[bytes]) -> Iterator[str]:
    """Decode pieces that may split a character."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _follow(session: Session, stream: stories.Stream, *, raw: bool) -> None:
    pieces = _until_end(session, stream)
    if session.as_json:
        for data in pieces:
            say(data)
        return
    texts = (msgspec.json.decode(data, type=LogEvent).text for data in pieces)
    if raw:
        for text in texts:
            _say_raw(text.encode())
    else:
        _say_lines(texts)


def _until_end(session: Session, stream: stories.Stream) -> Iterator[str]:
    for sent in session.client.follow(stream):
        if sent.event == "end":
            return
        yield sent.data
