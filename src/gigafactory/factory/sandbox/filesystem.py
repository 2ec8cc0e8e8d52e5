"""The file system that a sandboxed program sees: paths it may write, read, or not see at all."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gigafactory.factory.process.spawn import CannotStart, Program

Access = Literal["write", "read", "empty", "none"]
"""`empty` exists without content and is read-only; `none` is private scratch space."""

HIDDEN = tuple(
    Path(place)
    for place in (
        *("/home", "/root", "/Users", "/mnt", "/media", "/run", "/tmp", "/var/tmp"),  # noqa: S108
        *("/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/spool"),
        *("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d"),
    )
)
"""Personal files, sockets of services, files of other runs, secrets of the system (for root)."""
HOMES = (Path("/home"), Path("/Users"))
TOOLCHAINS = tuple(
    """
    .asdf .bun/bin .cargo/bin .deno/bin .fnm .jenv .local/share/fnm .local/share/mise
    .local/share/pnpm .local/share/uv .nvm .pyenv .rbenv .rustup .rvm .sdkman .volta
    """.split()  # noqa: SIM905 - names read best as text
)
NEEDED = tuple(Path(place) for place in ("/etc/resolv.conf", "/run/current-system"))
"""Parts of the system that some distributions keep below a hidden path."""


class Mount(msgspec.Struct, frozen=True):
    """A path and its access; everything below is the same, unless it is listed too."""

    path: Path
    access: Access
    is_folder: bool = True


def resolve_mounts(
    *,
    writable: Iterable[Path],
    readable: Iterable[Path],
    hidden: Iterable[Path],
    emptied: Iterable[Path] = (),
) -> tuple[Mount, ...]:
    """Return all mounts with their real paths, parents first; missing paths are left out.

    If a path is listed twice, the stricter access wins. Raises CannotStart for a writable path that
    does not exist.
    """
    found: dict[Path, Mount] = {}
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
                found[real] = Mount(real, access, real.is_dir())
            elif access == "write":
                raise CannotStart(f"cannot start anything in {str(path)!r}: it does not exist")
    return tuple(sorted(found.values(), key=lambda place: (len(place.path.parts), place.path)))


def exposed_paths(needed: Iterable[Path], hidden: Iterable[Path]) -> tuple[Path, ...]:
    """Return the needed paths that would be hidden otherwise, but never a whole home folder."""
    kept_from = resolve_mounts(writable=(), readable=(), hidden=hidden)
    return tuple(
        path
        for path in needed
        if access_of(path.resolve(), kept_from) == "none" and not is_home(path)
    )


def access_of(path: Path, mounts: Sequence[Mount]) -> Access:
    """Return the access to a path: that of the nearest mount above it, else `read`."""
    above = [place for place in mounts if path.is_relative_to(place.path)]
    return above[-1].access if above else "read"


def program_folders(program: Program) -> tuple[Path, ...]:
    """Return the folders that a program needs to start: those on its PATH, and its own.

    Raises CannotStart if there is no such program.
    """
    search = program.env.get("PATH", "")
    name = program.argv[0] if program.argv else ""
    found = shutil.which(str(program.cwd / name) if "/" in name else name, path=search)
    if found is None:
        raise CannotStart(f"cannot start {name!r}: there is no such program")
    on_path = [Path(folder) for folder in search.split(":") if folder.startswith("/")]
    real = Path(found).resolve()
    return (*on_path, Path(found).parent, real.parent, package_folder(real))


def toolchain_folders(home: Path) -> tuple[Path, ...]:
    """Return the folders of a home in which version managers keep toolchains, no credentials."""
    return tuple(home / name for name in TOOLCHAINS if (home / name).is_dir())


def is_home(path: Path) -> bool:
    """Return whether a path is a whole home folder, which is never exposed for a program in it."""
    real = path.resolve()
    return real == Path.home() or real.parent in HOMES


def package_folder(program: Path) -> Path:
    """Return the folder that a script is installed in: its virtual environment or node modules."""
    if "node_modules" in program.parts:
        return Path(*program.parts[: program.parts.index("node_modules") + 1])
    prefix = program.parent.parent
    return prefix if (prefix / "pyvenv.cfg").exists() else program.parent
