"""A factory on a small disk; the tests run it in a separate mount namespace.

    unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=16m tmpfs DISK && …'

Prints the outcome of its runs, one line of JSON each.
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gigafactory.config.settings import FactorySettings
from gigafactory.domain.job.job import Checkpoint, Step
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.stop import StopSignal
from gigafactory.factory.executor import Executor
from gigafactory.factory.reporting.log_sender import RunLog
from gigafactory.factory.reporting.reporter import UploadableFile
from gigafactory.wire.reports import ReportDoc
from gigafactory.wiring.factory import build_equipment

JOB = "01full"
PAGE = 4096
"""A file on a full disk can still grow to the end of its last page."""
PATH = "/usr/local/bin:/usr/bin:/bin"


class Reporter:
    """A reporter that keeps all reported fields."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def report(self, report: Report, *, last: bool = False) -> None:
        del last
        self.fields |= ReportDoc.from_domain(report).fields

    async def confirm_lease(self) -> bool:
        return True

    async def send_log(self, source: RunLog) -> None:
        await source.ended.wait()

    async def report_revert(self, job_id: str, commit: str) -> None:
        raise AssertionError("nothing was shipped before")

    async def fleet_access(self) -> None:
        """Never called: there is no coordinator."""

    async def add_artifact(self, file: UploadableFile) -> None:
        raise AssertionError("the job names no artifacts")


class Disk:
    """An executor on a small disk, and a file that fills it."""

    def __init__(self, folder: Path, remote: Path, executor: Executor, job: str = JOB) -> None:
        self._job = job
        self._folder = folder
        self._remote = remote
        self._executor = executor
        self._epoch = 0
        self._checkpoint: Checkpoint | None = None

    def fill(self) -> None:
        """Fill the disk completely."""
        with (self._folder / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Free the disk."""
        (self._folder / "ballast").unlink()

    @property
    def log(self) -> Path:
        """Return the log of the next or last run."""
        return self._folder / "factory" / "logs" / f"{self._job}.{self._epoch}.log"

    async def run(self, name: str, body: str) -> None:
        """Run the job again and print its outcome."""
        self._epoch += 1
        reporter = Reporter()
        outcome = await self._executor.run(self._assignment(body), reporter, StopSignal())
        if "checkpoint" in reporter.fields:
            fields = reporter.fields["checkpoint"]
            self._checkpoint = Checkpoint(
                branch=fields["branch"], commit=fields["commit"], factory_id="mac-1"
            )
        worktree = self._folder / "factory" / "worktrees" / self._job
        outcome_line = {
            "run": name,
            "result": outcome.result,
            "reason": outcome.reason,
            "told": reporter.fields.get("reason"),
            "commit": self._checkpoint and self._checkpoint.commit,
            "kept": sorted(os.listdir(worktree)) if worktree.exists() else None,  # noqa: PTH208
            "log": self.log.read_text(),
        }
        sys.stdout.write(json.dumps(outcome_line) + "\n")

    def _assignment(self, body: str) -> Assignment:
        return Assignment(
            job_id=self._job,
            name="full",
            title="Fill the disk",
            run_id=f"{self._job}.{self._epoch}",
            epoch=self._epoch,
            step=Step.RUN,
            engine="command",
            manifest=Manifest(repo=str(self._remote), verify="true", setup="none"),
            body=body,
            checkpoint=self._checkpoint,
        )


async def main(folder: Path, remote: Path) -> None:
    """Run with a full disk at each step that writes."""
    data_dir = DataDir.under(folder)
    data_dir.create()
    settings = FactorySettings(repos=remote.parent, sandbox="none")
    equipment = await build_equipment(
        settings, data_dir, factory_id="mac-1", environ={"PATH": PATH}
    )
    disk = Disk(folder, remote, Executor(equipment, slots=1))
    disk.fill()
    await disk.run("at the start", "echo precious > work")
    disk.free()
    fill_at_end = (
        f"echo precious > work; cat /dev/zero > {folder}/ballast 2>/dev/null; echo more > notes"
    )
    await disk.run("at its end", f"{fill_at_end}; true")
    disk.free()
    await disk.run("again", "ls; echo done > whole")
    frequent = replace(equipment, checkpoint_every_s=0.1)
    disk = Disk(folder, remote, Executor(frequent, slots=1), job="02full")
    await disk.run("in its middle", _meets_a_full_disk(folder, remote))


def _meets_a_full_disk(folder: Path, remote: Path) -> str:
    """Return an engine that fills the disk, and frees it after a checkpoint has failed."""
    log = DataDir.under(folder).log_file("02full.1")
    wip = "refs/heads/aq/wip/02full/1"
    return f"""
        echo precious > work; cat /dev/zero > {folder}/ballast 2>/dev/null
        until grep -q 'checkpoint: not saved' {log}; do sleep 0.02; done
        cat /dev/zero >> {folder}/ballast 2>/dev/null
        head -c 9000 /dev/zero | tr '\\0' x; echo
        until [ $(wc -c < {log}) -ge {PAGE} ]; do sleep 0.02; done
        rm {folder}/ballast
        until git --git-dir={remote} cat-file -e {wip}:work 2>/dev/null; do sleep 0.02; done
        echo and on
    """


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
