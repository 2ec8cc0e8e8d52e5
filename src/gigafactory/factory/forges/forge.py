"""The port of a forge: opens, checks and merges pull requests."""

from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest.manifest import MergeStyle


class CheckState(StrEnum):
    """The combined state of the required checks of a commit."""

    PENDING = "pending"
    RED = "red"
    GREEN = "green"


class Checks(msgspec.Struct, frozen=True):
    """The required checks of a commit; `names` are those that determine the state."""

    state: CheckState
    names: tuple[str, ...] = ()


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request."""

    number: int
    url: str
    state: Literal["open", "merged", "closed"]
    head: str
    """The proposed commit."""
    merged_as: str | None = None
    """The commit in the base that merged it, if the forge reports it."""
    clean: bool | None = None
    """Whether it merges without conflicts; None while the forge computes that."""
    body: str = ""


class PullRequestText(msgspec.Struct, frozen=True):
    """Title and body of a pull request or commit message."""

    title: str
    body: str


class MergedPull(msgspec.Struct, frozen=True):
    """It is in the base as this commit."""

    commit: str


class UnmergedPull(msgspec.Struct, frozen=True):
    """The forge did not merge it and changed nothing; `retry`: it asks for another attempt."""

    reason: str
    retry: bool = False


class ForgeRefused(Refused):
    """The forge understood the request and refused it."""

    code = "forge_refuses"


class ForgeForbidden(ForgeRefused):
    """The forge does not accept the token, or its permissions are too low."""

    code = "forge_forbids"


class ForgeUnavailable(Refused):
    """The forge does not answer now: it is unknown whether it did what was requested."""

    code = "forge_away"

    def __init__(self, sentence: str, *, retry_after_s: float | None = None) -> None:
        """Keep the message, and how long the forge wants us to wait, if it said so."""
        self.retry_after_s = retry_after_s
        super().__init__(sentence)


class Forge(Protocol):
    """One repo on a forge; every call raises ForgeRefused or ForgeUnavailable."""

    async def default_branch(self) -> str:
        """Return the branch that work goes into if a job names none."""
        ...

    async def contains_commit(self, base: str, commit: str) -> bool:
        """Return whether the base already contains this very commit."""
        ...

    async def find_pull_request(self, head: str, base: str) -> PullRequest | None:
        """Return the pull request of a branch: the open one, else the newest, else None."""
        ...

    async def find_merged(self, head: str, base: str, commit: str) -> PullRequest | None:
        """Return the pull request of a branch that merged this very commit, or None."""
        ...

    async def open(self, head: str, base: str, text: PullRequestText) -> PullRequest:
        """Open a pull request, or return the one that is already open."""
        ...

    async def checks(self, base: str, commit: str) -> Checks:
        """Return the state of the checks that the base requires; green if it requires none."""
        ...

    async def merge(
        self, pull: PullRequest, base: str, commit: str, style: MergeStyle, text: PullRequestText
    ) -> MergedPull | UnmergedPull:
        """Merge a pull request if it still proposes this commit."""
        ...

    async def close(self, pull: PullRequest) -> None:
        """Close a pull request without merging it."""
        ...

    async def comment(self, pull: PullRequest, marker: str, text: str) -> bool:
        """Comment on it, unless a comment with the marker exists; return whether it was added."""
        ...
