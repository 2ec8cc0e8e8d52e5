"""A run that kills the factory at each recovery is set aside after two attempts."""

from pathlib import Path

import pytest

from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.reporting.outbox import Outbox
from gigafactory.factory.run import crash_recovery, run_registry
from gigafactory.factory.run.crash_recovery import recover_from_crash
from gigafactory.factory.run.run_registry import RegisteredRun
from tests.support.factory.two_machines import GcHarness

RUN = RegisteredRun(run_id="a.1", job_id="a", epoch=1, mark="m" * 32, repo=None)


class KilledError(BaseException):
    """Simulates the death of the factory process."""


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    made = DataDir.under(tmp_path)
    made.create()
    made.worktree("a").mkdir()
    (made.worktree("a") / "work.txt").write_text("work")
    run_registry.register(made, RUN)
    return made


async def test_a_run_that_kills_each_recovery_is_set_aside_and_reported(
    data_dir: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = GcHarness(tmp_path / "world")

    async def killed(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr(crash_recovery, "quarantine_dead_run", killed)
    for _ in range(2):
        with pytest.raises(KilledError):
            await recover_from_crash(data_dir, harness.git_harness.mirrors, harness.one.repos)
    await recover_from_crash(data_dir, harness.git_harness.mirrors, harness.one.repos)
    assert run_registry.load_runs(data_dir) == []
    kept = data_dir.quarantine_folder("a", 1)
    assert (kept / "work.txt").read_text() == "work"
    assert not data_dir.worktree("a").exists()
    outbox = Outbox(data_dir.outbox)
    (report,) = (outbox.read(file) for file in outbox.pending())
    assert (report.job_id, report.epoch, report.last) == ("a", 1, True)
    assert report.fields["stage"] == "failed"
    assert "died 2 times" in report.fields["reason"]


async def test_a_recovery_that_only_fails_is_tried_again_at_every_start(
    data_dir: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = GcHarness(tmp_path / "world")

    async def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(crash_recovery, "quarantine_dead_run", fails)
        for _ in range(4):
            await recover_from_crash(data_dir, harness.git_harness.mirrors, harness.one.repos)
    assert run_registry.load_runs(data_dir) == [RUN]
    await recover_from_crash(data_dir, harness.git_harness.mirrors, harness.one.repos)
    assert (data_dir.quarantine_folder("a", 1) / "work.txt").read_text() == "work"
    assert not Outbox(data_dir.outbox).pending()
