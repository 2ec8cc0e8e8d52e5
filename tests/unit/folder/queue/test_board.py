"""The parts of the folder queue, each tested separately."""

from pathlib import Path

import pytest

from gigafactory.domain.errors import Invalid, NotFound
from gigafactory.domain.job.job import Ask, Priority, Result, ShipRequest, Stage, Step
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.machine.detect import DetectedMachine
from gigafactory.factory.machine.engines import DetectedEngine
from gigafactory.folder.queue.add import add
from gigafactory.folder.queue.board import COLUMNS, Board, column_of
from gigafactory.folder.queue.claim import Claim, HeldClaim, own_claim, read_claim
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.scheduler import order
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.wiring.folder_process import max_concurrent_jobs
from tests.support.builders import NOON, a_job, after

BUSY: dict[str, int] = {}


@pytest.fixture
def board(tmp_path: Path) -> Board:
    made = Board(tmp_path)
    made.create()
    return made


def a_machine(seats: dict[str, int] | None = None) -> LocalMachine:
    detected = DetectedMachine(
        os="linux",
        capabilities=("os:linux", "node:20.1"),
        repos=(),
        engines={
            "command": DetectedEngine(),
            "claude": DetectedEngine(problem="it is not logged in"),
        },
    )
    return LocalMachine("this", detected, seats or {}, now=NOON)


def test_every_stage_has_a_folder() -> None:
    assert {column_of(a_job(stage=stage)) for stage in Stage} == set(COLUMNS)
    assert column_of(a_job(stage=Stage.ASSIGNED)) == "building"


def test_moved_file_never_overwrites_another(board: Board) -> None:
    for column in ("inbox", "failed"):
        (board.column(column) / "a.md").write_text(column)
    moved = board.move(board.column("inbox") / "a.md", "failed")
    assert moved.name == "a-2.md"
    assert moved.read_text() == "inbox"
    assert (board.column("failed") / "a.md").read_text() == "failed"
    assert board.move(moved, "failed") == moved


def test_hidden_empty_or_other_files_are_no_jobs(board: Board) -> None:
    inbox = board.column("inbox")
    (inbox / ".hidden.md").write_text("x")
    (inbox / "empty.md").touch()
    (inbox / "other.txt").write_text("x")
    (inbox / "folder.md").mkdir()
    (inbox / "dangling.md").symlink_to(inbox / "nowhere")
    (inbox / "job.md").write_text("x")
    assert [path.name for path in board.files("inbox")] == ["job.md"]


def test_claim_is_exclusive_and_ends_on_release(board: Board) -> None:
    held = HeldClaim.take(board, "job")
    assert held is not None
    held.write(own_claim("me", 3, now=NOON))
    assert HeldClaim.take(board, "job") is None, "not even by ourselves"
    claim = read_claim(board, "job")
    assert claim is not None
    assert claim.alive
    assert claim.epoch == 3
    held.release()
    assert read_claim(board, "job") is None
    again = HeldClaim.take(board, "job")
    assert again is not None
    again.release()


def test_reused_pid_with_another_start_time_is_not_alive() -> None:
    ours = own_claim("me", 1, now=NOON)
    other = Claim(pid=ours.pid, started="once", instance_id="x", epoch=1, at=NOON)
    assert not other.alive


def test_urgent_jobs_go_first_then_promoted_then_oldest() -> None:
    old, young = a_job(id="a"), a_job(id="b", created_at=after(1))
    front = a_job(id="c", created_at=after(2), front=True)
    urgent = a_job(id="d", created_at=after(3), priority=Priority.CRITICAL)
    jobs = [young, old, urgent, front]
    assert [job.id for job in sorted(jobs, key=order)] == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("ask", "lacking"),
    [
        (Ask(engine="command"), None),
        (Ask(engine="command", needs=("node>=20",)), None),
        (Ask(engine="command", needs=("factory:this",)), None),
        (Ask(engine="command", needs=("gpu",)), "gpu"),
        (Ask(engine="command", needs=("factory:other",)), "factory:other"),
        (Ask(engine="claude"), "not logged in"),
        (Ask(), "agentic-coder"),
    ],
)
def test_machine_names_the_requirement_it_can_never_meet(ask: Ask, lacking: str | None) -> None:
    why = a_machine().why_never(a_job(ask=ask))
    assert (why is None) if lacking is None else lacking in (why or "")


def test_engine_is_free_while_it_has_seats() -> None:
    job = a_job(ask=Ask(engine="command"))
    assert a_machine().engines_for(job, {"command": 9}, now=NOON) == ("command",)
    machine = a_machine({"command": 1})
    assert machine.engines_for(job, BUSY, now=NOON) == ("command",)
    assert machine.engines_for(job, {"command": 1}, now=NOON) == ()
    assert machine.engines_for(a_job(ask=Ask(engine="x")), BUSY, now=NOON) == ()


def test_engine_cools_down_after_its_limit_and_is_off_when_broken() -> None:
    job = a_job(ask=Ask(engine="command"))
    machine = a_machine()
    machine.note(None, RunOutcome(result=Result.RATE_LIMITED), now=NOON)
    machine.note("command", RunOutcome(result=Result.OK), now=NOON)
    machine.note("command", RunOutcome(result=Result.RATE_LIMITED, retry_after_s=10), now=NOON)
    assert machine.engines_for(job, BUSY, now=after(9)) == ()
    assert machine.state("claude", now=NOON) is None, "what was never there does not rest"
    resting = machine.state("command", now=NOON)
    assert resting is not None
    assert resting.cooling_until == after(10)
    assert machine.state("command", now=after(10)) is None
    assert machine.engines_for(job, BUSY, now=after(10)) == ("command",)
    machine.note("command", RunOutcome(result=Result.ENGINE_UNAVAILABLE, reason="gone"), now=NOON)
    assert machine.engines_for(job, BUSY, now=after(99)) == ()


def test_ship_step_needs_no_engine() -> None:
    job = a_job(stage=Stage.TESTING, ship=ShipRequest(by="x", commit=None, at=NOON))
    assert job.step is Step.SHIP
    assert a_machine().engines_for(job, BUSY, now=NOON) == (None,)


def test_unknown_job_name_is_not_found(board: Board) -> None:
    queue = FolderQueue(board, SystemClock(), RandomIds())
    with queue.open() as desk, pytest.raises(NotFound, match="aq status"):
        desk.lookup("none")


def test_files_are_added_without_overwriting_others(board: Board, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("do it")
    names = [path.name for path in add(board, [file, file])]
    assert names == ["a.md", "a-2.md"]
    with pytest.raises(Invalid, match="cannot be read"):
        add(board, [tmp_path / "none.md"])


def test_number_of_concurrent_jobs_is_a_setting() -> None:
    assert max_concurrent_jobs({}) == 3
    assert max_concurrent_jobs({"AGENT_QUEUE_MAX": "7"}) == 7
    with pytest.raises(Invalid, match="AGENT_QUEUE_MAX"):
        max_concurrent_jobs({"AGENT_QUEUE_MAX": "0"})
