"""What a sandboxed program sees of the disk: which places it may write, read, or not know of."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gigafactory.factory.process.spawn import CannotStart, Program

Access = Literal["write", "read", "empty", "none"]
"""`empty` is there, with nothing in it, and stays so; `none` may be written to, for nobody else."""

HIDDEN = tuple(
    Path(place)
    for place in (
        *("/home", "/root", "/Users", "/mnt", "/media", "/run", "/tmp", "/var/tmp"),  # noqa: S108
        *("/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/spool"),
        *("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d"),
    )
)
"""Where people's own files, sockets of services, other runs' leftovers and, for a factory that runs
as root, the system's secrets are."""
HOMES = (Path("/home"), Path("/Users"))
TOOLCHAINS = tuple(
    """
    .asdf .bun/bin .cargo/bin .deno/bin .fnm .jenv .local/share/fnm .local/share/mise
    .local/share/pnpm .local/share/uv .nvm .pyenv .rbenv .rustup .rvm .sdkman .volta
    """.split()  # noqa: SIM905 - names read best as text
)
NEEDED = tuple(Path(place) for place in ("/etc/resolv.conf", "/run/current-system"))
"""Of the system itself, where some distributions keep it below what is hidden."""


class Place(msgspec.Struct, frozen=True):
    """One place and what may be done there; all below it is the same, unless it is listed too."""

    path: Path
    access: Access
    is_folder: bool = True


def places(
    *,
    writable: Iterable[Path],
    readable: Iterable[Path],
    hidden: Iterable[Path],
    emptied: Iterable[Path] = (),
) -> tuple[Place, ...]:
    """All of them as they really are on the disk, what lies above first; what is not there is left.

    Of two words on one place the stricter one holds. Raises CannotStart for a writable place that
    does not exist.
    """
    found: dict[Path, Place] = {}
    asked: list[tuple[Access, Iterable[Path]]] = [
        ("write", writable),
        ("read", readable),
        ("none", hidden),
        ("empty", emptied),
    ]
    for access, paths in asked:
        for path in paths:
            real = path.resolve()
            if real.exists():
                found[real] = Place(real, access, real.is_dir())
            elif access == "write":
                raise CannotStart(f"cannot start anything in {str(path)!r}: it does not exist")
    return tuple(sorted(found.values(), key=lambda place: (len(place.path.parts), place.path)))


def shown(needed: Iterable[Path], hidden: Iterable[Path]) -> tuple[Path, ...]:
    """Those of the needed places that are hidden otherwise, but never somebody's whole home."""
    kept_from = places(writable=(), readable=(), hidden=hidden)
    return tuple(
        path
        for path in needed
        if access_of(path.resolve(), kept_from) == "none" and not is_home(path)
    )


def access_of(path: Path, all_places: Sequence[Place]) -> Access:
    """What may be done at a path: the nearest place above it decides, else it can be read."""
    above = [place for place in all_places if path.is_relative_to(place.path)]
    return above[-1].access if above else "read"


def installed(program: Program) -> tuple[Path, ...]:
    """The folders that a program needs to see to start at all: those on its PATH, and its own.

    Raises CannotStart when there is no such program.
    """
    search = program.env.get("PATH", "")
    name = program.argv[0] if program.argv else ""
    found = shutil.which(str(program.cwd / name) if "/" in name else name, path=search)
    if found is None:
        raise CannotStart(f"cannot start {name!r}: there is no such program")
    on_path = [Path(folder) for folder in search.split(":") if folder.startswith("/")]
    real = Path(found).resolve()
    return (*on_path, Path(found).parent, real.parent, package(real))


def toolchains(home: Path) -> tuple[Path, ...]:
    """Where version managers keep compilers and interpreters in a home; no credential is there."""
    return tuple(home / name for name in TOOLCHAINS if (home / name).is_dir())


def is_home(path: Path) -> bool:
    """Whether it is all that somebody has, which is never shown for the sake of a program in it."""
    real = path.resolve()
    return real == Path.home() or real.parent in HOMES


def package(program: Path) -> Path:
    """The folder that a script was installed with: its virtual environment or node modules."""
    if "node_modules" in program.parts:
        return Path(*program.parts[: program.parts.index("node_modules") + 1])
    prefix = program.parent.parent
    return prefix if (prefix / "pyvenv.cfg").exists() else program.parent
