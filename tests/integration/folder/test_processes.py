"""Runners as real processes: two at once, and one that is killed during its work."""

import asyncio
import json
import os
import signal

from tests.support.folder_queue import FolderHarness
from tests.support.polling import until

JOBS = 20


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_two_runners_on_one_folder_take_every_job_once(place: FolderHarness) -> None:
    trace = place.folder / "trace"
    for number in range(JOBS):
        place.drop(f"job-{number}", f"echo {number} >> {trace}", verify="true")
    shell = place.shell
    with (
        shell.start("run", "--once", "--json") as one,
        shell.start("run", "--once", "--json") as two,
    ):
        items = [json.loads(process.communicate(timeout=100)[0]) for process in (one, two)]
        assert (one.returncode, two.returncode) == (0, 0)
    assert sorted(map(int, trace.read_text().split())) == list(range(JOBS))
    taken = [job["name"] for summary in items for job in summary["taken"]]
    assert sorted(taken) == sorted(f"job-{number}" for number in range(JOBS))
    for number in range(JOBS):
        job = place.job(f"job-{number}")
        assert (job.stage, job.runs, job.lease_epoch) == ("testing", 1, 1)
    assert [p.name for p in place.board.column("building").iterdir()] == [".gitignore"]


async def test_job_of_a_killed_runner_resumes_from_its_checkpoint(
    place: FolderHarness,
) -> None:
    going = place.folder / "going"
    place.drop_repo_job(
        "long",
        "if [ ! -e half ]; then echo x > half; echo half; sleep 600; fi\n"
        f"if [ ! -e {going} ]; then echo $$ > {going}.new; mv {going}.new {going}; sleep 600; fi\n"
        "echo done > whole",
        verify="true",
    )
    shell = place.shell
    with shell.start("run") as first:
        await until(lambda: "half\n" in (place.log("long") if place.queue.look() else ""))
        # The first signal drains the runner, the second one stops its jobs at once.
        first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)
    handed_back = place.job("long")
    assert (handed_back.stage, handed_back.result) == ("queued", "released")
    assert handed_back.checkpoint is not None
    with shell.start("run") as second:
        await until(going.exists)
        second.send_signal(signal.SIGKILL)
        second.wait(timeout=30)
    script = int(going.read_text())
    assert place.columns_of("long") == ["building"]
    assert is_alive(script), "it was not stopped"
    recovered = [shell.aq("recover", "--json").json() for _ in range(2)]
    assert [len(result["recovered"]) for result in recovered] == [1, 0]  # type: ignore[index]
    # The killed process may still be a zombie for a moment.
    await until(lambda: not is_alive(script))
    assert place.columns_of("long") == ["inbox"]
    assert shell.aq("run", "--once").code == 0
    job = place.job("long")
    assert (job.stage, job.result, job.attempts, job.runs) == ("testing", "ok", 0, 3)
    assert place.remote.text(job.head or "", "half") == "x"
    assert place.remote.text(job.head or "", "whole") == "done"
    assert place.event_types("long").count("lease_expired") == 1


async def test_claim_of_a_reused_pid_counts_as_dead(
    place: FolderHarness,
) -> None:
    place.drop("orphan", f"[ -e {place.folder}/go ] || sleep 600", verify="true")
    with place.shell.start("run") as runner:
        await until(lambda: bool(place.queue.look()) and place.job("orphan").stage == "building")
        runner.send_signal(signal.SIGKILL)
        runner.wait(timeout=30)
    (place.folder / "go").touch()
    other = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        claim = place.board.claim("orphan")
        data = json.loads(claim.read_bytes())
        claim.write_text(json.dumps(data | {"pid": other.pid}))
        assert not (await place.run()).failed
    finally:
        other.kill()
        await other.wait()
    job = place.job("orphan")
    assert (job.stage, job.runs) == ("testing", 2)
    assert place.event_types("orphan").count("lease_expired") == 1


async def test_job_that_repeatedly_kills_its_runner_is_poison(place: FolderHarness) -> None:
    place.drop("poison", "sleep 600")
    for _ in range(3):
        with place.shell.start("run") as runner:
            await until(
                lambda: (
                    bool(place.queue.look())
                    and place.job("poison").stage == "building"
                    and place.job("poison").lost == len(place.record("poison").runs) - 1
                )
            )
            runner.send_signal(signal.SIGKILL)
            runner.wait(timeout=30)
        assert place.shell.aq("recover").code == 0
    job = place.job("poison")
    assert (job.stage, job.result) == ("dead_letter", "poison")
    assert place.columns_of("poison") == ["failed"]


async def test_a_cancelled_run_stops(place: FolderHarness) -> None:
    place.drop("long", "echo under way; sleep 600", lock="one")
    place.drop("next", "true", lock="one", verify="true")
    with place.shell.start("run") as runner:
        await until(lambda: bool(place.queue.look()) and "under way\n" in place.log("long"))
        assert place.shell.aq("cancel", "long").code == 0
        assert place.columns_of("long") == ["failed"]
        await until(lambda: place.job("next").stage == "testing")
        runner.send_signal(signal.SIGTERM)
        runner.communicate(timeout=30)
        assert runner.returncode == 0
    assert (place.job("long").stage, place.job("long").ending) == ("cancelled", ())
