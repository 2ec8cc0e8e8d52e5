"""Branches of jobs at the remotes and in the mirrors: gone when nobody can want them any more.

- Of a job that was shipped all go: its `aq/wip/*` as they are, its `aq/job/*` when it is merged, or
  stands on the commit that was shipped into the base (a squash leaves it out of the history).
- Of a job that ended otherwise `aq/wip/*` go some time after its end: until then `requeue` goes on
  from them. Its `aq/job/*` goes only when it is merged; else it is told, and left to people.
- Of a job that has not ended, or that nobody knows, nothing is touched.
"""

import contextlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.gc.job_status import Fate, Fates
from gigafactory.factory.gc.mirror_index import KnownMirrors
from gigafactory.factory.gc.report import Sweep, Swept, gone, kept, together
from gigafactory.factory.git.commits import JOB, our_trailers
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import drop_all, remote_branches

TOGETHER_MAX = 50
NAMED_MAX = 3
LOOKED_BACK = timedelta(days=7)
"""So long before a job was said to be shipped its work may have been merged."""
_OURS = re.compile(r"aq/(?P<kind>job|wip)/(?P<job>[^/]+)(?:/[0-9]+)?")
_ORIGIN = "refs/remotes/origin/"


class Branch(msgspec.Struct, frozen=True, kw_only=True):
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
        """What is judged."""
        found = self.remote or self.here
        assert found is not None, "it is somewhere"
        return found


class Verdict(msgspec.Struct, frozen=True):
    """What is to be done with a branch; a reason without removal is worth telling."""

    remove: bool
    reason: str | None = None


_STAYS = Verdict(remove=False)


class JobBranches:
    """The branches of jobs, one remote after the other."""

    def __init__(self, mirrors: KnownMirrors, fates: Fates, *, unshipped_for: timedelta) -> None:
        """Keep those of jobs that were not shipped for so long after their end."""
        self._mirrors = mirrors
        self._fates = fates
        self._unshipped_for = unshipped_for

    async def sweep(self, now: datetime, *, dry_run: bool) -> Sweep:
        sweeps = []
        for mirror in self._mirrors.all():
            try:
                sweeps.append(await self._one(mirror, now, dry_run=dry_run))
            except (OSError, GitFailed) as trouble:
                note = f"branches of {mirror.address.name} are left alone: {trouble}"
                sweeps.append(Sweep(notes=(note,)))
            except Refused as refused:
                note = f"branches are left alone, as nobody knows their jobs: {refused.detail}"
                return together([*sweeps, Sweep(notes=(note,))])
        return together(sweeps)

    async def _one(self, mirror: Mirror, now: datetime, *, dry_run: bool) -> Sweep:
        branches = await _branches(mirror)
        fates = await self._fates.of({each.job_id for each in branches}) if branches else {}
        strange = {each.job_id for each in branches} - fates.keys()
        over = {job_id for job_id, fate in fates.items() if fate.finished}
        if not dry_run and any(each.is_result and each.job_id in over for each in branches):
            await mirror.fetch()
            branches = await _branches(mirror)
        ended = [each for each in branches if each.job_id in over]
        swept: list[Swept] = []
        for at in range(0, len(ended), TOGETHER_MAX):
            some = ended[at : at + TOGETHER_MAX]
            swept += await self._some(mirror, some, fates, now, dry_run=dry_run)
        return Sweep(swept=tuple(swept), notes=_strangers(mirror, strange))

    async def _some(
        self,
        mirror: Mirror,
        branches: list[Branch],
        fates: Mapping[str, Fate],
        now: datetime,
        *,
        dry_run: bool,
    ) -> list[Swept]:
        verdicts = {
            each: await self._judged(mirror, each, fates[each.job_id], now) for each in branches
        }
        goes = [each for each, verdict in verdicts.items() if verdict.remove]
        if goes and not dry_run:
            # Somebody may have reopened a job while we were judging.
            again = await self._fates.of({each.job_id for each in goes})
            goes = [each for each in goes if again.get(each.job_id) == fates[each.job_id]]
        stay = {} if dry_run else await _dropped(mirror, goes)
        told = [kept("branch", each, reason) for each, reason in stay.items()]
        for each, verdict in verdicts.items():
            if not verdict.remove and verdict.reason is not None:
                told.append(kept("branch", each.name, verdict.reason))
        left = [each for each in goes if each.name not in stay]
        return [gone("branch", e.name, verdicts[e].reason or "") for e in left] + told

    async def _judged(self, mirror: Mirror, branch: Branch, fate: Fate, now: datetime) -> Verdict:
        if fate.shipped:
            return await self._shipped(mirror, branch, fate)
        age = now - fate.since
        if branch.is_result:
            if await _is_merged(mirror, branch.commit):
                return Verdict(remove=True, reason="it is merged")
            if age < self._unshipped_for:
                return _STAYS
            since = f"{fate.since:%Y-%m-%d}"
            reason = f"its job is {fate.stage} since {since}, and it is not merged; delete it if"
            return Verdict(remove=False, reason=f"{reason} nobody wants it")
        if age < self._unshipped_for:
            return _STAYS
        return Verdict(remove=True, reason=f"its job is {fate.stage} since {fate.since:%Y-%m-%d}")

    async def _shipped(self, mirror: Mirror, branch: Branch, fate: Fate) -> Verdict:
        if not branch.is_result:
            return Verdict(remove=True, reason="its job is shipped")
        if await _is_merged(mirror, branch.commit):
            return Verdict(remove=True, reason="it is merged")
        if branch.commit != fate.head:
            reason = "its job is shipped, but it has moved on to a commit that is not merged"
            return Verdict(remove=False, reason=reason)
        if await self._fates.is_merged(branch.job_id):
            return Verdict(remove=True, reason="its job is shipped")
        if await _is_squashed(mirror, branch.job_id, fate.since - LOOKED_BACK):
            return Verdict(remove=True, reason="it is merged, as another commit")
        reason = "its job is shipped, but not into a branch: a pull request may need it"
        return Verdict(remove=False, reason=reason)


async def _branches(mirror: Mirror) -> list[Branch]:
    """All that are named as ours are; the others are somebody else's."""
    remote = await remote_branches(mirror, "aq/*")
    told = await mirror.run(
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        f"{_ORIGIN}aq/job/",
        f"{_ORIGIN}aq/wip/",
    )
    pairs = (line.partition(" ") for line in told.text.splitlines())
    here = {ref.removeprefix(_ORIGIN): commit for commit, _, ref in pairs}
    found = []
    for name in sorted({*remote, *here}):
        if (ours := _OURS.fullmatch(name)) is None:
            continue
        found.append(
            Branch(
                name=name,
                job_id=ours["job"],
                is_result=ours["kind"] == "job",
                remote=remote.get(name),
                here=here.get(name),
            )
        )
    return found


async def _is_merged(mirror: Mirror, commit: str) -> bool:
    """Whether a branch that is not ours contains a commit; one that is not here is in none."""
    if not await mirror.has(commit):
        return False
    told = await mirror.run(
        "for-each-ref", "--format=%(refname)", f"--contains={commit}", _ORIGIN, "refs/tags/"
    )
    return any(not ref.startswith(f"{_ORIGIN}aq/") for ref in told.text.splitlines())


async def _is_squashed(mirror: Mirror, job_id: str, since: datetime) -> bool:
    """Whether the default branch has a commit that says that it is of this job."""
    base = await mirror.resolve(await mirror.default_branch())
    told = await mirror.run(
        *("log", "-z", "--format=%B", "--fixed-strings", f"--grep={JOB}: {job_id}"),
        *(f"--since={since.isoformat(timespec='seconds')}", "--end-of-options", base, "--"),
    )
    return any(our_trailers(words).get(JOB) == job_id for words in told.text.split("\0"))


async def _dropped(mirror: Mirror, branches: list[Branch]) -> dict[str, str]:
    """Remove branches, each only from the commit that was judged; those that stay, and why."""
    remote = {each.name: each.remote for each in branches if each.remote is not None}
    stay = await drop_all(mirror, remote) if remote else {}
    lines = [
        f"delete {_ORIGIN}{each.name} {each.here}\n"
        for each in branches
        if each.here is not None and each.name not in stay
    ]
    # A fetch may have forgotten one of them: then the next round does it.
    with contextlib.suppress(GitFailed):
        await mirror.run("update-ref", "--stdin", stdin="".join(lines).encode())
    return stay


def _strangers(mirror: Mirror, job_ids: set[str]) -> tuple[str, ...]:
    if not job_ids:
        return ()
    shown = ", ".join(sorted(job_ids)[:NAMED_MAX]) + (", …" if len(job_ids) > NAMED_MAX else "")
    count = f"{len(job_ids)} jobs" if len(job_ids) > 1 else "a job"
    return (f"{mirror.address.name}: branches of {count} that nobody knows stay: {shown}",)
