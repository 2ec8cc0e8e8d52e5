"""The errors of git, by kind.

GitFailed                any other failure; has the arguments, exit code and stderr
├── RemoteUnavailable    the network or the remote is down: try again later
├── RemoteForbidden      the remote rejects our credentials
├── GitNotFound          there is no such repo, ref or commit
│   ├── RepoNotFound     there is no repo, or we may not see it
│   ├── EmptyRepo        the repo has no commit yet
│   └── NoDefaultBranch  the remote's HEAD is detached
├── RefMoved             a ref is not where it was expected: nothing was pushed
├── PushDenied           the remote refuses the push itself (a hook, a protected branch)
├── AtomicPushUnsupported  the remote cannot update several refs atomically
├── GitOutputTooLong     git printed more than the limit; has the beginning
├── DiskFull
└── GitTimeout
"""

import re
from collections.abc import Sequence

from gigafactory.domain.errors import Refused

_TAIL_CHARS = 2000
_REFUSED = re.compile(r"^(?:remote: |!\t.*\[remote rejected\] )(.*\S)", re.MULTILINE)
"""What the remote itself says about a push, within the output of git."""


class GitFailed(Refused):
    """Git failed."""

    code = "git_failed"

    def __init__(self, args: Sequence[str], exit_code: int | None, stderr: str) -> None:
        """Keep the arguments, the exit code and the end of stderr, without secrets."""
        self.command = tuple(args)
        self.exit_code = exit_code
        self.stderr = stderr[-_TAIL_CHARS:].strip()
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        return self._cause()

    def _cause(self) -> str:
        if self.exit_code is None:
            return self.stderr
        return (
            f"git {self.command[0]} failed ({self.exit_code}): {self.stderr or 'no reason given'}"
        )


class GitOutputTooLong(GitFailed):
    """Git printed more than the limit and was stopped."""

    code = "git_said_too_much"

    def __init__(self, args: Sequence[str], bytes_max: int, beginning: bytes) -> None:
        """Keep the beginning, for callers that can use it."""
        self.beginning = beginning
        super().__init__(args, None, f"git {args[0]} printed more than {bytes_max} bytes")


class RemoteUnavailable(GitFailed):
    """The remote could not be reached, or the connection broke."""

    code = "git_remote_away"

    def _sentence(self) -> str:
        return f"the remote cannot be reached; it is tried again later: {self._cause()}"


class RemoteForbidden(GitFailed):
    """The remote rejects our credentials."""

    code = "git_remote_forbids"

    def _sentence(self) -> str:
        return (
            f"the remote denies access to this factory: {self._cause()}; give the factory a token"
            " for this host (factory.forges) or an ssh key"
        )


class GitNotFound(GitFailed):
    """There is no such repo, ref or commit."""

    code = "git_missing"


class RepoNotFound(GitNotFound):
    """There is no repo, or the remote does not show it to us."""

    code = "git_no_repo"

    def _sentence(self) -> str:
        return (
            f"there is no repo that this factory can see: {self._cause()};"
            " correct the job's `repo`, or let the factory read it"
        )


class EmptyRepo(GitNotFound):
    """The repo has no commit yet: there is nothing to start from."""

    code = "git_empty_repo"

    def _sentence(self) -> str:
        return f"{self.stderr} has no commit yet; push a first one to serve as base"


class NoDefaultBranch(GitNotFound):
    """The remote's HEAD is detached, and no branch has one of the usual names."""

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
        expected = self.expected or "absent"
        return f"{self.branch} was expected to be {expected}, but is {self.now or 'absent'}"


class PushDenied(GitFailed):
    """The remote refuses this push, wherever the ref is."""

    code = "git_push_denied"

    def _sentence(self) -> str:
        why = " ".join(dict.fromkeys(_REFUSED.findall(self.stderr))) or self._cause()
        return (
            f"the remote rejects the push: {' '.join(why.split())}; have it allow this to the"
            " factory, then requeue the job"
        )


class AtomicPushUnsupported(GitFailed):
    """The remote updates refs only one by one; nothing was pushed."""

    code = "git_not_together"


class DiskFull(GitFailed):
    """There is no space left."""

    code = "git_disk_full"

    def _sentence(self) -> str:
        return f"the disk of this factory is full; free some space: {self._cause()}"


class GitTimeout(GitFailed):
    """Git did not end in time and was killed with all its children."""

    code = "git_timeout"

    def _sentence(self) -> str:
        return f"git {self.command[0]} did not end in time: {self.stderr}"


_SIGNS: tuple[tuple[type[GitFailed], tuple[str, ...]], ...] = (
    (DiskFull, ("no space left on device", "disk quota exceeded", "out of diskspace")),
    (AtomicPushUnsupported, ("does not support --atomic",)),
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
        RemoteForbidden,
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
        RepoNotFound,
        (
            "does not appear to be a git repo",
            "repository .{0,500}not found",
            "returned error: (?:404|410)",
        ),
    ),
    (
        GitNotFound,
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
        RemoteUnavailable,
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
_PATTERNS = tuple((kind, re.compile("|".join(signs), re.IGNORECASE)) for kind, signs in _SIGNS)


def error_from_output(args: Sequence[str], exit_code: int, stderr: str) -> GitFailed:
    """Return the error that git's output stands for."""
    for kind, sign in _PATTERNS:
        if sign.search(stderr):
            return kind(args, exit_code, stderr)
    return GitFailed(args, exit_code, stderr)
