"""Ships through a pull request of a forge; every step is idempotent."""

import asyncio
import time
from typing import Literal

import msgspec

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.forges.forge import (
    CheckState,
    Forge,
    ForgeRefused,
    ForgeUnavailable,
    MergedPull,
    PullRequest,
    PullRequestText,
)
from gigafactory.factory.forges.pull_request_text import build_text, marker, read_agent_text
from gigafactory.factory.reporting.lease_check import confirm_lease
from gigafactory.factory.run.active_run import ActiveRun

AWAY_MAX = 5
"""Consecutive failures of the forge before the job is handed back."""
LOOKS_MAX = 3
"""Checks before a state is final: forges update pull requests and mergeability with a delay."""
_GROWTH = 1.5


class Pending(msgspec.Struct, frozen=True):
    """Shipping has to wait; `timeout_result` is the result if the time runs out meanwhile."""

    reason: str
    timeout_result: Result
    after_s: float | None = None


ShipStep = RunOutcome | Pending | Literal["done"]


class PullRequestShipping:
    """Ships one commit into the base through a pull request."""

    def __init__(
        self, run: ActiveRun, forge: Forge, *, branch: str, base: str | None, commit: str
    ) -> None:
        """Ship `commit`, the tip of `branch`; without `base`, into the forge's default branch."""
        self._run = run
        self._forge = forge
        self._branch = branch
        self.base = base or ""
        self.newer_commit: str | None = None
        """The commit that people added after the approved one."""
        self._commit = commit
        self._patience = run.equipment.forges.patience
        self._announced: set[str] = set()
        self._deadline = time.monotonic() + self._patience.total_s
        self._pause_s = self._patience.first_s
        self._moved_looks = 0
        self._mergeability_looks = 0

    async def ship(self) -> RunOutcome | None:
        """Ship the commit and return None, or the outcome that explains why it is not shipped."""
        failures = 0
        while True:
            try:
                step = await self._step()
                failures = 0
            except ForgeUnavailable as trouble:
                failures += 1
                if failures >= AWAY_MAX:
                    return _overloaded(str(trouble), trouble.retry_after_s)
                step = Pending(str(trouble), Result.OVERLOADED, trouble.retry_after_s)
            except ForgeRefused as no:
                return RunOutcome(result=Result.SETUP_FAILED, reason=str(no))
            if step == "done":
                return None
            if isinstance(step, RunOutcome):
                return step
            if (ended := await self._wait(step)) is not None:
                return ended

    async def propose(self, words: PullRequestText) -> PullRequest | RunOutcome:
        """Return the pull request of the commit; open one, or comment on an existing one.

        Raises ForgeRefused, ForgeUnavailable.
        """
        pull = await self._forge.find_pull_request(self._branch, self.base)
        if pull is None or (pull.state != "open" and pull.head != self._commit):
            return await self._open(words)
        if pull.state == "open" and self._marker not in pull.body:
            if (fenced := await self._announce(f"comments on {pull.url}")) is not None:
                return fenced
            text = f"{self._commit[:12]} is new here: {words.title}"
            await self._forge.comment(pull, self._marker, text)
        return pull

    @property
    def _marker(self) -> str:
        return marker(self._run.assignment.job_id, self._run.assignment.run_id)

    async def _step(self) -> ShipStep:
        """Read the current state, and do the next missing step."""
        self.base = self.base or await self._forge.default_branch()
        pull = await self._forge.find_pull_request(self._branch, self.base)
        if await self._is_shipped(pull):
            return "done"
        if pull is None or (pull.state != "open" and pull.head != self._commit):
            job = self._run.assignment
            secrets = self._run.equipment.secrets
            opened = await self._open(
                build_text(
                    read_agent_text(self._run.home), title=job.title, body=job.body, secrets=secrets
                )
            )
            if isinstance(opened, RunOutcome):
                return opened
            pull = opened
        if pull.state != "open":
            reason = f"{pull.url} was closed without being merged; reopen it, or requeue the job"
            return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)
        if pull.head != self._commit:
            return await self._handle_moved_head(pull)
        if self._run.assignment.manifest.ship == "pr":
            return self._wait_for_merge(pull)
        return await self._merge_if_green(pull)

    async def _is_shipped(self, pull: PullRequest | None) -> bool:
        if pull is not None and pull.state == "merged" and pull.head == self._commit:
            merge_commit = f" as {pull.merged_as[:12]}" if pull.merged_as else ""
            self._run.log_line(f"{pull.url} is merged into {self.base}{merge_commit}")
            return True
        if pull is not None and pull.state == "merged" and await self._has_newer_commits(pull):
            self._run.log_line(f"{pull.url} is merged into {self.base}, with later human commits")
            return True
        if await self._forge.contains_commit(self.base, self._commit):
            self._run.log_line(f"{self._commit[:12]} is in {self.base}")
            return True
        return False

    async def _has_newer_commits(self, pull: PullRequest) -> bool:
        """Whether the pull request contains the approved commit and more."""
        if not await self._forge.contains_commit(pull.head, self._commit):
            return False
        self.newer_commit = pull.head
        return True

    async def _handle_moved_head(self, pull: PullRequest) -> ShipStep:
        self._moved_looks += 1
        reason = (
            f"{pull.url} proposes {pull.head[:12]}, and {self._commit[:12]} was approved:"
            " nothing was merged; review the newer commit and ship it, or requeue the job"
        )
        if self._moved_looks < LOOKS_MAX:
            return Pending(reason, Result.MERGE_CONFLICT)
        await self._has_newer_commits(pull)
        return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)

    def _wait_for_merge(self, pull: PullRequest) -> ShipStep:
        if not self._run.assignment.manifest.wait_merge:
            self._run.log_line(f"{pull.url} is open")
            return "done"
        # Reviews take time: release the slot; any factory can continue to wait.
        return Pending(f"{pull.url} waits to be merged", Result.RELEASED)

    async def _merge_if_green(self, pull: PullRequest) -> ShipStep:
        checks = await self._forge.checks(self.base, self._commit)
        names = ", ".join(checks.names)
        match checks.state:
            case CheckState.RED:
                reason = f"required checks of {pull.url} are red: {names}; nothing is merged"
                return RunOutcome(result=Result.VERIFY_FAILED, reason=reason)
            case CheckState.PENDING:
                return Pending(
                    f"required checks of {pull.url} are pending: {names}", Result.TIMEOUT
                )
            case CheckState.GREEN:
                return await self._merge(pull)

    async def _merge(self, pull: PullRequest) -> ShipStep:
        if pull.clean is False:
            return self._conflict("both sides changed the same lines")
        if pull.clean is None and self._mergeability_looks < LOOKS_MAX:
            self._mergeability_looks += 1
            return Pending(
                f"the forge is still checking whether {pull.url} can be merged", Result.OVERLOADED
            )
        manifest, job = self._run.assignment.manifest, self._run.assignment
        intent = f"merges {pull.url} at {self._commit[:12]} into {self.base}"
        if (fenced := await self._announce(intent)) is not None:
            return fenced
        words = PullRequestText(f"{job.title} (#{pull.number})", f"Aq-Job: {job.job_id}")
        style = manifest.merge_style or "merge"
        done = await self._forge.merge(pull, self.base, self._commit, style, words)
        if isinstance(done, MergedPull):
            self._run.log_line(f"{pull.url} is merged into {self.base} as {done.commit[:12]}")
            return "done"
        # Another process may have merged it since we read its state.
        if await self._is_shipped(await self._forge.find_pull_request(self._branch, self.base)):
            return "done"
        return (
            Pending(done.reason, Result.OVERLOADED) if done.retry else self._conflict(done.reason)
        )

    def _conflict(self, why: str) -> RunOutcome:
        reason = f"it cannot be merged into {self.base}: {why}; requeue it, or merge by hand"
        return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)

    async def _open(self, words: PullRequestText) -> PullRequest | RunOutcome:
        intent = f"opens a pull request of {self._branch} into {self.base}"
        if (fenced := await self._announce(intent)) is not None:
            return fenced
        signed = PullRequestText(words.title, f"{words.body}\n\n{self._marker}".lstrip())
        pull = await self._forge.open(self._branch, self.base, signed)
        self._run.log_line(f"{pull.url} is open")
        return (
            pull if await confirm_lease(self._run.reporter) else await self._close_duplicate(pull)
        )

    async def _close_duplicate(self, pull: PullRequest) -> RunOutcome:
        """Close a pull request if another run has already merged one for this commit.

        A forge knows no leases, so the lease can be lost between its check and the request.
        """
        done = await self._forge.find_merged(self._branch, self.base, self._commit)
        if done is not None and done.number != pull.number:
            await self._forge.close(pull)
            self._run.log_line(f"{pull.url} is closed: {done.url} is already merged")
        return self._fenced_outcome()

    async def _announce(self, event: str) -> RunOutcome | None:
        """Report an external effect before it happens; return an outcome if the lease is lost."""
        if event not in self._announced:
            self._run.reporter.report(self._run.report(note=event))
            self._announced.add(event)
        return None if await confirm_lease(self._run.reporter) else self._fenced_outcome()

    def _fenced_outcome(self) -> RunOutcome:
        self._run.stop_fenced()
        stopped = self._run.stopped_outcome()
        assert stopped is not None, "a fenced run has an outcome"
        return stopped

    async def _wait(self, waits: Pending) -> RunOutcome | None:
        """Wait, longer each time; return an outcome when the time is up or the run is stopped."""
        pause_s = max(self._pause_s, waits.after_s or 0.0)
        self._pause_s = min(self._pause_s * _GROWTH, self._patience.longest_s)
        self._run.log_line(waits.reason)
        if time.monotonic() + pause_s > self._deadline:
            if waits.timeout_result is Result.OVERLOADED:
                return _overloaded(waits.reason, waits.after_s)
            return RunOutcome(
                result=waits.timeout_result, reason=f"{waits.reason}; the time limit is reached"
            )
        try:
            async with asyncio.timeout(pause_s):
                await self._run.stop.event.wait()
        except TimeoutError:
            return None
        return self._run.stopped_outcome()


def _overloaded(reason: str, retry_after_s: float | None) -> RunOutcome:
    return RunOutcome(result=Result.OVERLOADED, reason=reason, retry_after_s=retry_after_s)
