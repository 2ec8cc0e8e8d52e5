"""The report of a garbage collection: each item that was removed, packed or kept, and a summary."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from gigafactory.system.formatting import format_size

Kind = Literal["worktree", "home", "log", "quarantine", "branch", "mirror"]
Action = Literal["removed", "packed", "kept"]

_PLURALS = {
    "worktree": "worktrees",
    "home": "homes",
    "log": "logs",
    "quarantine": "quarantined results",
    "branch": "branches",
    "mirror": "mirrors",
}
_SINGULARS = _PLURALS.keys() - {"quarantine"}
_WOULD = {"removed": "would remove", "packed": "would pack", "kept": "would keep"}


class GcItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One item that the collection looked at: removed, packed, or kept for a reason."""

    kind: Kind
    name: str
    did: Action
    reason: str
    bytes: int = 0
    """The space that it took; for a packed mirror, the space that was saved."""

    def describe(self, *, dry: bool = False) -> str:
        """Return it as one line; with `dry`, as what would have been done."""
        verb = _WOULD[self.did] if dry else self.did
        return f"{verb} {self.kind} {self.name}: {self.reason}"

    def __str__(self) -> str:
        return self.describe()


class GcReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one garbage collection."""

    dry_run: bool = False
    """Whether nothing was touched: then this is what a collection would do."""
    swept: tuple[GcItem, ...] = ()
    notes: tuple[str, ...] = ()
    """What was skipped, and why."""

    @property
    def changed(self) -> tuple[GcItem, ...]:
        """Return the items that were removed or packed."""
        return tuple(each for each in self.swept if each.did != "kept")

    @property
    def bytes(self) -> int:
        """Return the space that was freed."""
        return sum(each.bytes for each in self.changed)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON data."""
        whole: dict[str, object] = msgspec.to_builtins(self)
        return whole | {"bytes": self.bytes}

    def summary(self) -> str:
        """Summarize what was done in one line; empty if nothing was."""
        parts = (
            [f"removed {_count_by_kind(self.swept, 'removed')}"] if _any(self, "removed") else []
        )
        if _any(self, "packed"):
            parts.append(f"packed {_count_by_kind(self.swept, 'packed')}")
        if self.bytes:
            parts.append(format_size(self.bytes))
        text = ", ".join(parts)
        return f"would have {text}" if self.dry_run and text else text


def merge_reports(sweeps: Iterable[GcReport], *, dry_run: bool = False) -> GcReport:
    """Merge several reports into one."""
    every = list(sweeps)
    return GcReport(
        dry_run=dry_run,
        swept=tuple(each for sweep in every for each in sweep.swept),
        notes=tuple(dict.fromkeys(note for sweep in every for note in sweep.notes)),
    )


def removed_item(kind: Kind, name: str, reason: str, size: int = 0) -> GcItem:
    """Return an item that was removed."""
    return GcItem(kind=kind, name=name, did="removed", reason=reason, bytes=size)


def kept_item(kind: Kind, name: str, reason: str) -> GcItem:
    """Return an item that was kept and that people may want to look at."""
    return GcItem(kind=kind, name=name, did="kept", reason=reason)


def _any(sweep: GcReport, action: Action) -> bool:
    return any(each.did == action for each in sweep.swept)


def _count_by_kind(items: Iterable[GcItem], action: Action) -> str:
    counts = Counter(each.kind for each in items if each.did == action)
    return ", ".join(_count_text(kind, count) for kind, count in counts.items())


def _count_text(kind: Kind, count: int) -> str:
    if count == 1:
        return f"1 {kind}" if kind in _SINGULARS else "1 quarantined result"
    return f"{count} {_PLURALS[kind]}"
