"""A forge in our words: where a branch becomes a pull request, is checked, and is merged."""

from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest.manifest import MergeStyle


class Colour(StrEnum):
    """What the required checks of a commit say together."""

    PENDING = "pending"
    RED = "red"
    GREEN = "green"


class Checks(msgspec.Struct, frozen=True):
    """The required checks of a commit; `names` are those that the colour comes from."""

    colour: Colour
    names: tuple[str, ...] = ()


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal to take a branch over into another."""

    number: int
    url: str
    state: Literal["open", "merged", "closed"]
    head: str
    """The commit that is proposed."""
    merged_as: str | None = None
    """The commit of the base by which it came in, where the forge tells."""
    clean: bool | None = None
    """Whether it goes into its base as that is; None while the forge finds out."""
    body: str = ""


class Words(msgspec.Struct, frozen=True):
    """What a pull request or a commit says."""

    title: str
    body: str


class Merged(msgspec.Struct, frozen=True):
    """It is in the base, as this commit."""

    commit: str


class Unmerged(msgspec.Struct, frozen=True):
    """The forge did not merge it, and nothing was changed; `again`: it asks to be asked again."""

    reason: str
    again: bool = False


class ForgeRefuses(Refused):
    """The forge understood us, and does not do it."""

    code = "forge_refuses"


class ForgeForbids(ForgeRefuses):
    """The forge does not know us, or does not let us."""

    code = "forge_forbids"


class ForgeAway(Refused):
    """The forge cannot answer now: whether it has done what we asked is not known."""

    code = "forge_away"

    def __init__(self, sentence: str, *, retry_after_s: float | None = None) -> None:
        """Say so, with how long it wants to be left alone where it told."""
        self.retry_after_s = retry_after_s
        super().__init__(sentence)


class Forge(Protocol):
    """One repo on a forge; every call raises ForgeRefuses or ForgeAway."""

    async def default_branch(self) -> str:
        """The branch that work goes into where a job names none."""
        ...

    async def landed(self, base: str, commit: str) -> bool:
        """Whether the base has this very commit already."""
        ...

    async def pull_request(self, head: str, base: str) -> PullRequest | None:
        """The pull request of a branch: the open one, or else the newest; None without any."""
        ...

    async def merged(self, head: str, base: str, commit: str) -> PullRequest | None:
        """The pull request of a branch by which this very commit was merged; None without one."""
        ...

    async def open(self, head: str, base: str, words: Words) -> PullRequest:
        """Open a pull request; where there is an open one already, it is that one."""
        ...

    async def checks(self, base: str, commit: str) -> Checks:
        """What the checks say that the base requires; green where it requires none."""
        ...

    async def merge(
        self, pull: PullRequest, base: str, commit: str, style: MergeStyle, words: Words
    ) -> Merged | Unmerged:
        """Merge it if it still proposes this commit."""
        ...

    async def close(self, pull: PullRequest) -> None:
        """Take a proposal back."""
        ...

    async def comment(self, pull: PullRequest, marker: str, text: str) -> bool:
        """Say this below it, unless a comment with the marker is there; whether it was said now."""
        ...
