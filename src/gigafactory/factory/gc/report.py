"""What housekeeping tells: each thing that it removed, packed or left, and a sum of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from gigafactory.system.formatting import format_size

Kind = Literal["worktree", "home", "log", "quarantine", "branch", "mirror"]
Did = Literal["removed", "packed", "kept"]

_MANY = {
    "worktree": "worktrees",
    "home": "homes",
    "log": "logs",
    "quarantine": "quarantined results",
    "branch": "branches",
    "mirror": "mirrors",
}
_ONE = _MANY.keys() - {"quarantine"}
_WOULD = {"removed": "would remove", "packed": "would pack", "kept": "would keep"}


class Swept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that housekeeping has looked at: gone, smaller, or left for a reason to know."""

    kind: Kind
    name: str
    did: Did
    reason: str
    bytes: int = 0
    """How much room it took; of a mirror that was packed, how much less it takes."""

    def line(self, *, dry: bool = False) -> str:
        """Say it in one line; with `dry`, as what would have been done."""
        verb = _WOULD[self.did] if dry else self.did
        return f"{verb} {self.kind} {self.name}: {self.reason}"

    def __str__(self) -> str:
        """Say it in one line."""
        return self.line()


class Sweep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One round through all places."""

    dry_run: bool = False
    """Whether nothing was touched: then this is what a round would do."""
    swept: tuple[Swept, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be looked at, and why."""

    @property
    def done(self) -> tuple[Swept, ...]:
        """What was not left as it was."""
        return tuple(each for each in self.swept if each.did != "kept")

    @property
    def bytes(self) -> int:
        """How much room there is now that was taken before."""
        return sum(each.bytes for each in self.done)

    def told(self) -> dict[str, object]:
        """All of it for programs."""
        whole: dict[str, object] = msgspec.to_builtins(self)
        return whole | {"bytes": self.bytes}

    def summed_up(self) -> str:
        """All that was done, in one line; empty when that is nothing."""
        parts = [f"removed {_counted(self.swept, 'removed')}"] if _any(self, "removed") else []
        if _any(self, "packed"):
            parts.append(f"packed {_counted(self.swept, 'packed')}")
        if self.bytes:
            parts.append(format_size(self.bytes))
        text = ", ".join(parts)
        return f"would have {text}" if self.dry_run and text else text


def together(sweeps: Iterable[Sweep], *, dry_run: bool = False) -> Sweep:
    """Several rounds as one."""
    every = list(sweeps)
    return Sweep(
        dry_run=dry_run,
        swept=tuple(each for sweep in every for each in sweep.swept),
        notes=tuple(dict.fromkeys(note for sweep in every for note in sweep.notes)),
    )


def gone(kind: Kind, name: str, reason: str, size: int = 0) -> Swept:
    """Something that was removed."""
    return Swept(kind=kind, name=name, did="removed", reason=reason, bytes=size)


def kept(kind: Kind, name: str, reason: str) -> Swept:
    """Something that somebody may want to look at."""
    return Swept(kind=kind, name=name, did="kept", reason=reason)


def _any(sweep: Sweep, did: Did) -> bool:
    return any(each.did == did for each in sweep.swept)


def _counted(swept: Iterable[Swept], did: Did) -> str:
    counts = Counter(each.kind for each in swept if each.did == did)
    return ", ".join(_named(kind, count) for kind, count in counts.items())


def _named(kind: Kind, count: int) -> str:
    if count == 1:
        return f"1 {kind}" if kind in _ONE else "1 quarantined result"
    return f"{count} {_MANY[kind]}"
