"""Every way in which git can fail us, by name.

GitFailed                anything else; the arguments, exit code and last words are in it
├── RemoteAway           the network or the remote is away: try again later
├── RemoteForbids        the remote does not know us, or does not let us
├── Missing              there is no such repo, ref or commit
│   ├── NoRepo           there is no repo, or we are not shown it
│   ├── EmptyRepo        the repo has no commit yet
│   └── NoDefaultBranch  the remote's HEAD stands on no branch
├── RefMoved             a ref is not where it was expected: nothing was pushed
├── PushDenied           the remote refuses the push itself (a hook, a protected branch)
├── NotTogether          the remote cannot move several refs in one step
├── SaidTooMuch          what git printed is longer than was wanted; the beginning is in it
├── DiskFull
└── GitTimeout
"""

import re
from collections.abc import Sequence

from gigafactory.domain.errors import Refused

_TAIL_CHARS = 2000
_REFUSED = re.compile(r"^(?:remote: |!\t.*\[remote rejected\] )(.*\S)", re.MULTILINE)
"""What the remote itself says to a push, among the words of git."""


class GitFailed(Refused):
    """Git could not do it."""

    code = "git_failed"

    def __init__(self, args: Sequence[str], exit_code: int | None, stderr: str) -> None:
        """Keep what was asked, how it ended and what git said last; never a secret."""
        self.command = tuple(args)
        self.exit_code = exit_code
        self.stderr = stderr[-_TAIL_CHARS:].strip()
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        return self._said()

    def _said(self) -> str:
        if self.exit_code is None:
            return self.stderr
        return f"git {self.command[0]} failed ({self.exit_code}): {self.stderr or 'no word of why'}"


class SaidTooMuch(GitFailed):
    """Git printed more than was wanted, and was stopped."""

    code = "git_said_too_much"

    def __init__(self, args: Sequence[str], bytes_max: int, begun: bytes) -> None:
        """Keep the beginning of it, for whom that will do."""
        self.begun = begun
        super().__init__(args, None, f"git {args[0]} printed more than {bytes_max} bytes")


class RemoteAway(GitFailed):
    """The remote could not be reached, or the connection broke."""

    code = "git_remote_away"

    def _sentence(self) -> str:
        return f"the remote cannot be reached, and is tried again later: {self._said()}"


class RemoteForbids(GitFailed):
    """The remote wants other credentials than we have."""

    code = "git_remote_forbids"

    def _sentence(self) -> str:
        return (
            f"the remote does not let this factory in: {self._said()}; give the factory a token for"
            " this host (factory.forges) or a key for ssh"
        )


class Missing(GitFailed):
    """There is no such repo, ref or commit."""

    code = "git_missing"


class NoRepo(Missing):
    """There is no repo, or the remote does not show it to us."""

    code = "git_no_repo"

    def _sentence(self) -> str:
        return (
            f"there is no repo that this factory can see: {self._said()}; correct the job's `repo`,"
            " or let the factory read it"
        )


class EmptyRepo(Missing):
    """The repo has no commit yet: there is nothing to start from."""

    code = "git_empty_repo"

    def _sentence(self) -> str:
        return f"{self.stderr} has no commit yet; push a first one, so that there is a base"


class NoDefaultBranch(Missing):
    """The remote's HEAD stands on no branch, and none of its branches is the obvious one."""

    code = "git_no_default_branch"

    def _sentence(self) -> str:
        return f"{self.stderr} has no default branch (its HEAD is detached); name one as `base`"


class RefMoved(GitFailed):
    """A ref is not where it was expected, so nothing was pushed; `now` is where it is."""

    code = "git_ref_moved"

    def __init__(self, branch: str, *, expected: str | None, now: str | None) -> None:
        """Name the branch and both commits; None where there is no such branch."""
        self.branch = branch
        self.expected = expected
        self.now = now
        super().__init__(("push",), 1, "")

    def _sentence(self) -> str:
        expected = self.expected or "not there"
        return f"{self.branch} was expected to be {expected}, and is {self.now or 'not there'}"


class PushDenied(GitFailed):
    """The remote refuses this push, wherever the ref stands."""

    code = "git_push_denied"

    def _sentence(self) -> str:
        why = " ".join(dict.fromkeys(_REFUSED.findall(self.stderr))) or self._said()
        return (
            f"the remote does not take the push: {' '.join(why.split())}; have it allow this to the"
            " factory, then requeue the job"
        )


class NotTogether(GitFailed):
    """The remote moves refs one by one only; nothing was pushed."""

    code = "git_not_together"


class DiskFull(GitFailed):
    """There is no space left to write to."""

    code = "git_disk_full"

    def _sentence(self) -> str:
        return f"the disk of this factory is full; free some space: {self._said()}"


class GitTimeout(GitFailed):
    """Git did not end in time, and was killed with all that it had started."""

    code = "git_timeout"

    def _sentence(self) -> str:
        return f"git {self.command[0]} did not end in time: {self.stderr}"


_SIGNS: tuple[tuple[type[GitFailed], tuple[str, ...]], ...] = (
    (DiskFull, ("no space left on device", "disk quota exceeded", "out of diskspace")),
    (NotTogether, ("does not support --atomic",)),
    (
        PushDenied,
        (
            r"\[rejected\]",
            r"\[remote rejected\]",
            "stale info",
            "non-fast-forward",
            "failed to push some refs",
        ),
    ),
    (
        RemoteForbids,
        (
            "authentication failed",
            "could not read (?:username|password)",
            "terminal prompts disabled",
            r"permission denied \(",
            "host key verification failed",
            "returned error: 40[137]",
        ),
    ),
    (
        NoRepo,
        (
            "does not appear to be a git repo",
            "repository .*not found",
            "returned error: (?:404|410)",
        ),
    ),
    (
        Missing,
        (
            "couldn't find remote ref",
            "not a git repo",
            "unknown revision",
            "bad (?:object|revision)",
            "not a valid (?:object|commit|tree)",
            "needed a single revision",
            "not our ref",
            "not a tree object",
            "failed to unpack tree object",
        ),
    ),
    (
        RemoteAway,
        (
            "could not resolve",
            "connection (?:refused|timed out|reset|closed)",
            "failed to connect",
            "couldn't connect",
            "could not read from remote",
            "hung up unexpectedly",
            "early eof",
            "rpc failed",
            r"returned error: (?:429|5\d\d)",
            "operation (?:too slow|timed out)",
            "network is unreachable",
            "no route to host",
            "unable to access",
        ),
    ),
)


def failure(args: Sequence[str], exit_code: int, stderr: str) -> GitFailed:
    """The failure that git's last words stand for."""
    for kind, signs in _SIGNS:
        if any(re.search(sign, stderr, re.IGNORECASE) for sign in signs):
            return kind(args, exit_code, stderr)
    return GitFailed(args, exit_code, stderr)
