"""Files in the inbox: invalid files, any order, duplicates and lost records."""

import os
import shutil

import pytest

from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.folder.queue import intake
from gigafactory.folder.queue.board import Board
from tests.support.folder_queue import FolderHarness


async def test_invalid_job_file_is_moved_to_failed_with_its_errors(place: FolderHarness) -> None:
    bad = place.drop("bad", "body", prioritty="high", timeout="soon")
    text = bad.read_text()
    done = await place.run()
    assert done.failed
    assert done.invalid == ("bad.md",)
    assert (place.board.column("failed") / "bad.md").read_text() == text
    errors = (place.board.column("failed") / "bad.errors.txt").read_text()
    assert "line 3: prioritty" in errors
    assert "timeout" in errors
    assert not (await place.run()).failed, "it is told once"
    fixed = place.board.column("failed") / "bad.md"
    fixed.write_text("---\nengine: command\nverify: 'true'\n---\ntrue\n")
    assert place.shell.aq("requeue", "bad").code == 0
    await place.run()
    assert place.columns_of("bad") == ["testing"]


async def test_unknown_profile_and_non_utf8_file_are_rejected(
    place: FolderHarness,
) -> None:
    place.drop("who", "body", profile="wizard")
    (place.board.column("inbox") / "noise.md").write_bytes(b"\xff\xfe\x00")
    await place.run()
    assert "wizard" in place.board.errors("who.md").read_text()
    assert place.board.errors("noise.md").read_text()


async def test_dependencies_may_be_added_in_any_order(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    place.drop("third", f"echo third >> {trace}", deps="[second]", verify="true")
    await place.run()
    job = place.job("third")
    assert (job.stage, job.flags) == ("blocked", ("dep_missing",))
    assert place.columns_of("third") == ["inbox"]
    options = {"verify": "true", "ship": "none", "ship_policy": "auto"}
    place.drop("second", f"echo second >> {trace}", deps="[first]", **options)
    place.drop("first", f"echo first >> {trace}", **options)
    assert not (await place.run()).failed
    assert trace.read_text().split() == ["first", "second", "third"]
    assert place.job("third").flags == ()


async def test_failed_dependency_is_waited_for_and_flagged(
    place: FolderHarness,
) -> None:
    place.drop("base", "exit 1")
    place.drop("waits", "true", deps="[base]")
    place.drop("gives-up", "true", deps="[base]", on_dep_failure="fail")
    await place.run()
    assert (place.job("waits").stage, place.job("waits").flags) == ("blocked", ("dep_failed",))
    assert (place.job("gives-up").stage, place.job("gives-up").result) == ("failed", "dep_failed")


async def test_file_that_closes_a_dependency_cycle_is_rejected(place: FolderHarness) -> None:
    place.drop("one", "true", deps="[two]")
    await place.run()
    place.drop("two", "true", deps="[one]")
    await place.run()
    assert "one → two → one" in place.board.errors("two.md").read_text()
    assert place.job("one").stage == "blocked"


async def test_reused_file_name_is_another_job(place: FolderHarness) -> None:
    place.drop("page", "echo one", verify="true")
    await place.run()
    place.drop("page", "echo two", verify="true")
    await place.run()
    assert place.columns_of("page") == ["testing"]
    assert place.columns_of("page-2") == ["testing"]
    assert place.job("page").id != place.job("page-2").id
    assert "two" in place.log("page-2")


async def test_used_idempotency_key_runs_only_once(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    place.drop("nightly", f"echo x >> {trace}", idempotency_key="n-1", verify="true")
    await place.run()
    place.drop("nightly", f"echo x >> {trace}", idempotency_key="n-1", verify="true")
    await place.run()
    assert trace.read_text() == "x\n"
    assert place.columns_of("nightly") == ["testing"]
    place.drop("nightly", "echo other", idempotency_key="n-1", verify="true")
    await place.run()
    assert "same idempotency key" in place.board.errors("nightly.md").read_text()


async def test_waiting_job_is_superseded_by_a_newer_one_with_its_key(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    place.drop("nightly", f"echo old >> {trace}", idempotency_key="n-1", not_before="1d")
    await place.run()
    place.drop("after", f"echo after >> {trace}", deps="[nightly]", deps_mode="soft")
    await place.run()
    place.drop("newer", f"echo new >> {trace}", idempotency_key="n-1", verify="true")
    await place.run()
    assert trace.read_text() == "new\nafter\n"
    assert place.job("newer").stage == "testing"
    first = place.job("nightly")
    assert (first.stage, first.result) == ("cancelled", "superseded")
    assert place.columns_of("nightly") == ["failed"]


async def test_removed_file_cancels_its_job(place: FolderHarness) -> None:
    place.drop("later", "true", not_before="1d")
    await place.run()
    (place.board.column("inbox") / "later.md").unlink()
    await place.run()
    assert place.job("later").stage == "cancelled"


async def test_most_urgent_job_runs_first_then_the_oldest(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    for name, priority in (("a", "low"), ("b", "medium"), ("c", "medium"), ("d", "critical")):
        place.drop(name, f"echo {name} >> {trace}", priority=priority, verify="true")
    place.drop("e", f"echo e >> {trace}", not_before="1d", verify="true")
    await place.run(jobs_max=1)
    assert trace.read_text().split() == ["d", "b", "c", "a"]


async def test_promoted_job_runs_before_others_of_its_priority(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    for name in ("a", "b", "c"):
        place.drop(name, f"echo {name} >> {trace}", verify="true")
    await (await place.runner(wanted=lambda _: False)).run(once=True)
    assert place.job("c").stage == "queued"
    place.act("c", "promote")
    await place.run(jobs_max=1)
    assert trace.read_text().split() == ["c", "a", "b"]


async def test_jobs_with_one_lock_run_one_at_a_time(place: FolderHarness) -> None:
    inside, trace = place.folder / "inside", place.folder / "trace"
    script = f"mkdir {inside} || exit 1; sleep 0.2; rmdir {inside}; echo x >> {trace}"
    for name in ("a", "b", "c"):
        place.drop(name, script, lock="printer", verify="true")
    assert not (await place.run()).failed
    assert trace.read_text() == "x\n" * 3


async def test_jobs_without_a_lock_run_concurrently(place: FolderHarness) -> None:
    wait = "for i in 1 2 3 4 5 6 7 8 9; do [ -e {} ] && exit 0; sleep 0.2; done; exit 1"
    meet = place.folder
    place.drop("one", f"touch {meet}/one; " + wait.format(meet / "two"), verify="true")
    place.drop("two", f"touch {meet}/two; " + wait.format(meet / "one"), verify="true")
    assert not (await place.run()).failed


async def test_lost_records_are_rebuilt_from_the_folders(place: FolderHarness) -> None:
    place.drop("shipped", "true", verify="true", ship="none", ship_policy="auto")
    place.drop("review", "true")
    place.drop_repo_job("testing", "echo x > x", verify="true")
    place.drop("failed", "exit 1")
    place.drop("wrong", "true", prioritty="high")
    place.drop("later", "true", not_before="1d")
    await place.run()
    shutil.rmtree(place.board.state)
    (place.board.column("building") / "lost.md").write_text(
        "---\nengine: command\nverify: 'true'\n---\ntrue\n"
    )
    place.queue = place.reopen()
    await place.run()
    stages = {kept.key: str(kept.job.stage) for kept in place.queue.look().values()}
    assert stages == {
        "shipped": "shipped",
        "review": "review",
        "testing": "testing",
        "failed": "failed",
        "later": "queued",
        "lost": "testing",
    }
    assert place.event_types("review") == ["submitted", "rebuilt"]
    place.act("review", "approve")
    place.act("review", "ship")
    place.act("failed", "requeue")
    ran = place.shell.aq("ship", "testing")
    assert ran.code == 4
    assert "its commit is not known" in ran.err
    await place.run()
    assert place.columns_of("review") == ["shipped"]


async def test_an_unreadable_record_is_rebuilt(place: FolderHarness) -> None:
    place.drop("review", "true")
    await place.run()
    place.board.record("review").write_text("{")
    await place.run()
    assert place.job("review").stage == "review"


async def test_half_written_event_is_ignored(place: FolderHarness) -> None:
    place.drop("review", "true")
    await place.run()
    before = place.event_types("review")
    with place.board.events("review").open("a") as events:
        events.write('{"type": "half')
    assert place.event_types("review") == before
    place.act("review", "approve")
    assert place.event_types("review") == [*before, "review_submitted", "approved"]


async def test_interrupted_file_move_is_completed(
    place: FolderHarness,
) -> None:
    place.drop("review", "true")
    await place.run()
    place.act("review", "approve")
    (place.board.column("testing") / "review.md").rename(place.board.column("review") / "review.md")
    await place.run()
    assert place.columns_of("review") == ["testing"]


def test_folder_queue_exists_with_an_inbox_and_its_state(place: FolderHarness) -> None:
    assert place.board.exists
    assert not Board(place.folder).exists


async def test_one_hostile_file_never_stops_the_others(place: FolderHarness) -> None:
    inbox = place.board.column("inbox")
    (inbox / "yaml.md").write_bytes(b'---\nx: "\r\r\r" y: [\n---\nb')
    (inbox / os.fsdecode(b"caf\xe9.md")).write_text("not in UTF-8")
    (inbox / "osc\x1b]52;c;aGk=\x07.md").write_text("---\npriority: [\n---\nx")
    place.drop("good", "true", verify="true")
    done = await place.run()
    assert place.columns_of("good") == ["testing"]
    assert len(done.invalid) == 3
    assert "not readable as YAML" in place.board.errors("yaml.md").read_text()
    assert "not in UTF-8" in place.board.errors("caf\ufffd.md").read_text()
    for options in ((), ("--json",)):
        shown = place.shell.aq("status", *options)
        assert shown.code == 0, shown.err
        assert "\x1b]" not in shown.out + shown.err
        assert "caf\ufffd.md" in shown.out + shown.err


async def test_an_error_that_nobody_expected_concerns_one_file(
    place: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(data: bytes, *, stem: str | None = None) -> JobFile:
        if stem == "odd":
            raise IndexError("list index out of range")
        return parse_job_file(data, stem=stem)

    monkeypatch.setattr(intake, "parse_job_file", fails)
    place.drop("odd", "true")
    place.drop("good", "true", verify="true")
    await place.run()
    assert place.columns_of("odd") == ["failed"]
    assert "IndexError: list index" in place.board.errors("odd.md").read_text()
    assert place.columns_of("good") == ["testing"]
