"""Garbage collection of job branches at the remotes and in the mirrors.

- Of a shipped job all go: its `aq/wip/*` as they are, its `aq/job/*` if it is merged or points to
  the commit that was shipped into the base (a squash leaves it out of the history).
- Of a job that ended otherwise `aq/wip/*` go some time after its end: until then `requeue`
  continues from them. Its `aq/job/*` goes only if it is merged; else it is reported and left to
  people.
- Of a job that has not ended, or is unknown, nothing is touched.
"""

import contextlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.gc.job_status import JobState, JobStates
from gigafactory.factory.gc.mirror_index import MirrorIndex
from gigafactory.factory.gc.report import GcItem, GcReport, kept_item, merge_reports, removed_item
from gigafactory.factory.git.commits import JOB, parse_trailers
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import delete_branches, remote_branches

BATCH_MAX = 50
NAMED_MAX = 3
SQUASH_LOOK_BACK = timedelta(days=7)
"""How long before a job was reported as shipped its work may have been merged."""
_OURS = re.compile(r"aq/(?P<kind>job|wip)/(?P<job>[^/]+)(?:/[0-9]+)?")
_ORIGIN = "refs/remotes/origin/"


class JobBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of a job, at its remote or as a mirror remembers it."""

    name: str
    job_id: str
    is_result: bool
    remote: str | None
    """Its commit at the remote."""
    here: str | None
    """Its commit in the mirror."""

    @property
    def commit(self) -> str:
        """Return the commit to judge by."""
        commit = self.remote or self.here
        assert commit is not None, "a branch exists at the remote or in the mirror"
        return commit


class BranchVerdict(msgspec.Struct, frozen=True):
    """Whether to remove a branch; a reason without removal is worth reporting."""

    remove: bool
    reason: str | None = None


_STAYS = BranchVerdict(remove=False)


class BranchCollector:
    """Removes the branches of ended jobs, remote by remote."""

    def __init__(
        self, mirrors: MirrorIndex, states: JobStates, *, unshipped_for: timedelta
    ) -> None:
        """Keep branches of jobs that were not shipped for `unshipped_for` after their end."""
        self._mirrors = mirrors
        self._states = states
        self._unshipped_for = unshipped_for

    async def collect(self, now: datetime, *, dry_run: bool) -> GcReport:
        """Remove branches that are no longer needed, and report."""
        reports = []
        for mirror in self._mirrors.all():
            try:
                reports.append(await self._collect_mirror(mirror, now, dry_run=dry_run))
            except (OSError, GitFailed) as trouble:
                note = f"branches of {mirror.address.name} were skipped: {trouble}"
                reports.append(GcReport(notes=(note,)))
            except Refused as refused:
                note = f"branches were skipped, as their jobs are unknown: {refused.detail}"
                return merge_reports([*reports, GcReport(notes=(note,))])
        return merge_reports(reports)

    async def _collect_mirror(self, mirror: Mirror, now: datetime, *, dry_run: bool) -> GcReport:
        branches = await _branches(mirror)
        states = await self._states.look_up({each.job_id for each in branches}) if branches else {}
        unknown = {each.job_id for each in branches} - states.keys()
        over = {job_id for job_id, state in states.items() if state.finished}
        if not dry_run and any(each.is_result and each.job_id in over for each in branches):
            await mirror.fetch()
            branches = await _branches(mirror)
        ended = [each for each in branches if each.job_id in over]
        items: list[GcItem] = []
        for at in range(0, len(ended), BATCH_MAX):
            some = ended[at : at + BATCH_MAX]
            items += await self._collect_branches(mirror, some, states, now, dry_run=dry_run)
        return GcReport(swept=tuple(items), notes=_unknown_note(mirror, unknown))

    async def _collect_branches(
        self,
        mirror: Mirror,
        branches: list[JobBranch],
        states: Mapping[str, JobState],
        now: datetime,
        *,
        dry_run: bool,
    ) -> list[GcItem]:
        verdicts = {
            each: await self._judge(mirror, each, states[each.job_id], now) for each in branches
        }
        removable = [each for each, verdict in verdicts.items() if verdict.remove]
        if removable and not dry_run:
            # A job may have been reopened meanwhile.
            again = await self._states.look_up({each.job_id for each in removable})
            removable = [
                each for each in removable if again.get(each.job_id) == states[each.job_id]
            ]
        stay = {} if dry_run else await _remove(mirror, removable)
        kept_items = [kept_item("branch", each, reason) for each, reason in stay.items()]
        for each, verdict in verdicts.items():
            if not verdict.remove and verdict.reason is not None:
                kept_items.append(kept_item("branch", each.name, verdict.reason))
        left = [each for each in removable if each.name not in stay]
        return [removed_item("branch", e.name, verdicts[e].reason or "") for e in left] + kept_items

    async def _judge(
        self, mirror: Mirror, branch: JobBranch, state: JobState, now: datetime
    ) -> BranchVerdict:
        if state.shipped:
            return await self._judge_shipped(mirror, branch, state)
        age = now - state.since
        if branch.is_result:
            if await _is_merged(mirror, branch.commit):
                return BranchVerdict(remove=True, reason="it is merged")
            if age < self._unshipped_for:
                return _STAYS
            since = f"{state.since:%Y-%m-%d}"
            reason = f"its job is {state.stage} since {since}, and it is not merged; delete it if"
            return BranchVerdict(remove=False, reason=f"{reason} it is not needed")
        if age < self._unshipped_for:
            return _STAYS
        return BranchVerdict(
            remove=True, reason=f"its job is {state.stage} since {state.since:%Y-%m-%d}"
        )

    async def _judge_shipped(
        self, mirror: Mirror, branch: JobBranch, state: JobState
    ) -> BranchVerdict:
        if not branch.is_result:
            return BranchVerdict(remove=True, reason="its job is shipped")
        if await _is_merged(mirror, branch.commit):
            return BranchVerdict(remove=True, reason="it is merged")
        if branch.commit != state.head:
            reason = "its job is shipped, but its newest commit is not merged"
            return BranchVerdict(remove=False, reason=reason)
        if await self._states.is_merged(branch.job_id):
            return BranchVerdict(remove=True, reason="its job is shipped")
        if await _is_squashed(mirror, branch.job_id, state.since - SQUASH_LOOK_BACK):
            return BranchVerdict(remove=True, reason="it is merged, as another commit")
        reason = "its job is shipped, but not into a branch: a pull request may need it"
        return BranchVerdict(remove=False, reason=reason)


async def _branches(mirror: Mirror) -> list[JobBranch]:
    """Return all branches with our naming scheme."""
    remote = await remote_branches(mirror, "aq/*")
    refs = await mirror.run(
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        f"{_ORIGIN}aq/job/",
        f"{_ORIGIN}aq/wip/",
    )
    pairs = (line.partition(" ") for line in refs.text.splitlines())
    local = {ref.removeprefix(_ORIGIN): commit for commit, _, ref in pairs}
    branches = []
    for name in sorted({*remote, *local}):
        if (ours := _OURS.fullmatch(name)) is None:
            continue
        branches.append(
            JobBranch(
                name=name,
                job_id=ours["job"],
                is_result=ours["kind"] == "job",
                remote=remote.get(name),
                here=local.get(name),
            )
        )
    return branches


async def _is_merged(mirror: Mirror, commit: str) -> bool:
    """Return whether a branch that is not a job's contains a commit; an unknown one is in none."""
    if not await mirror.has_commit(commit):
        return False
    refs = await mirror.run(
        "for-each-ref", "--format=%(refname)", f"--contains={commit}", _ORIGIN, "refs/tags/"
    )
    return any(not ref.startswith(f"{_ORIGIN}aq/") for ref in refs.text.splitlines())


async def _is_squashed(mirror: Mirror, job_id: str, since: datetime) -> bool:
    """Return whether the default branch has a commit that names this job."""
    base = await mirror.resolve(await mirror.default_branch())
    log = await mirror.run(
        *("log", "-z", "--format=%B", "--fixed-strings", f"--grep={JOB}: {job_id}"),
        *(f"--since={since.isoformat(timespec='seconds')}", "--end-of-options", base, "--"),
    )
    return any(parse_trailers(words).get(JOB) == job_id for words in log.text.split("\0"))


async def _remove(mirror: Mirror, branches: list[JobBranch]) -> dict[str, str]:
    """Remove branches, each only if it still has the judged commit; return failures by name."""
    remote = {each.name: each.remote for each in branches if each.remote is not None}
    stay = await delete_branches(mirror, remote) if remote else {}
    lines = [
        f"delete {_ORIGIN}{each.name} {each.here}\n"
        for each in branches
        if each.here is not None and each.name not in stay
    ]
    # A fetch may have removed one of them: then the next round removes the others.
    with contextlib.suppress(GitFailed):
        await mirror.run("update-ref", "--stdin", stdin="".join(lines).encode())
    return stay


def _unknown_note(mirror: Mirror, job_ids: set[str]) -> tuple[str, ...]:
    if not job_ids:
        return ()
    names = ", ".join(sorted(job_ids)[:NAMED_MAX]) + (", …" if len(job_ids) > NAMED_MAX else "")
    count = f"{len(job_ids)} jobs" if len(job_ids) > 1 else "a job"
    return (f"{mirror.address.name}: branches of {count} that are unknown stay: {names}",)
