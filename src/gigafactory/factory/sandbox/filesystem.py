"""The file system that a sandboxed program sees: nothing, but for what is listed.

System folders are shown read-only, then what a run needs: its worktree, toolchains, the programs on
its PATH. Whatever is not listed is not there, wherever a machine keeps its homes and its data.
"""

import functools
import os
import pwd
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gigafactory.factory.process.spawn import CannotStart, Program

Access = Literal["write", "read", "empty", "none", "link"]
"""`empty` exists without content and is read-only; `none` is private scratch space."""

LINUX = tuple(
    """
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix/store /nix/var/nix/profiles /gnu/store
    /run/current-system /sys/devices/system /var/lib/ca-certificates /etc/resolv.conf
    """.split()  # noqa: SIM905 - names read best as text
)
MACOS = tuple(
    """
    /usr /bin /sbin /System /Library/Apple /Library/Developer /Library/Frameworks /Library/Java
    /Applications/Xcode.app /opt /nix/store /private/etc /private/var/db/dyld
    /private/var/db/timezone /private/var/db/xcode_select_link /private/var/run/resolv.conf
    /private/var/select /etc
    """.split()  # noqa: SIM905 - names read best as text
)
SYSTEM = tuple(Path(place) for place in (MACOS if sys.platform == "darwin" else LINUX))
"""Shown read-only: programs, libraries and their settings."""
PRIVATE = tuple(
    Path(place)
    for place in ("/home", "/root", "/Users", "/run", "/tmp", "/var/tmp")  # noqa: S108
)
"""Exist, without content: programs write there or expect them."""
SECRETS = tuple(
    Path("/etc", name)
    for name in (
        *("shadow", "gshadow", "ssh", "ssl/private", "sudoers", "sudoers.d", "krb5.keytab"),
        *("NetworkManager/system-connections", "wireguard", "openvpn", "letsencrypt"),
        *("kubernetes", "rancher", "docker", "gigafactory"),
    )
)
"""Secrets of the system, besides everything in /etc that not all users may read."""
ETC_ENTRIES_MAX = 20_000
HOMES = (Path("/home"), Path("/Users"))
TOOLCHAINS = tuple(
    """
    .asdf/asdf.sh .asdf/bin .asdf/installs .asdf/lib .asdf/libexec .asdf/plugins .asdf/shims
    .bun/bin .cargo/bin .deno/bin .fnm .jenv .local/share/fnm .local/share/mise/installs
    .local/share/mise/plugins .local/share/mise/shims .local/share/pnpm .local/share/uv/python
    .local/share/uv/tools .nvm .pyenv .rbenv .rustup .rvm .sdkman .volta
    """.split()  # noqa: SIM905 - names read best as text
)
"""Folders of a home in which version managers keep toolchains."""
TOOLCHAIN_CREDENTIALS = (
    *(".nvm/versions/node/*/etc/npmrc", ".fnm/node-versions/*/installation/etc/npmrc"),
    *(".local/share/fnm/node-versions/*/installation/etc/npmrc", ".pyenv/versions/*/pip.conf"),
    *(".local/share/mise/installs/*/*/etc/npmrc", ".local/share/mise/installs/*/*/pip.conf"),
    *(".asdf/installs/*/*/etc/npmrc", ".asdf/installs/*/*/pip.conf", ".rvm/user/*"),
    *(
        ".volta/tools/image/node/*/etc/npmrc",
        ".local/share/pnpm/*rc",
        ".local/share/uv/*/*/pip.conf",
    ),
)
"""Settings in those folders that may have the password of a package registry."""
CERTIFICATES = tuple(
    """
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    AWS_CA_BUNDLE PIP_CERT CARGO_HTTP_CAINFO
    """.split()  # noqa: SIM905 - names read best as text
)
_LINKS_MAX = 40


class Mount(msgspec.Struct, frozen=True):
    """A path and its access; everything below is the same, unless it is listed too."""

    path: Path
    access: Access
    is_folder: bool = True
    target: str = ""
    """Where a link leads."""


def build_mounts(
    program: Program,
    *,
    writable: Iterable[Path],
    readable: Iterable[Path] = (),
    needed: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
    emptied: Iterable[Path] = (),
) -> tuple[Mount, ...]:
    """Return all that a program sees: the system, what it needs to start, and what is given.

    Paths in `needed` are shown, but never a whole home. Raises CannotStart.
    """
    hidden = (*SECRETS, *private_settings(), *hidden)
    certificates = (program.env.get(name, "") for name in CERTIFICATES)
    wanted = (
        *program_folders(program),
        *(Path(each) for each in certificates if each.startswith("/")),
        *needed,
    )
    return resolve_mounts(
        writable=writable,
        readable=(*SYSTEM, *(each for each in wanted if not is_home(each)), *readable),
        hidden=hidden,
        emptied=emptied,
    )


def resolve_mounts(
    *,
    writable: Iterable[Path],
    readable: Iterable[Path],
    hidden: Iterable[Path] = (),
    emptied: Iterable[Path] = (),
) -> tuple[Mount, ...]:
    """Return all mounts with their real paths, parents first; missing paths are left out.

    If a path is listed twice, the stricter access wins. Raises CannotStart for a writable path that
    does not exist.
    """
    resolved: dict[Path, Mount] = {}
    links: dict[Path, Mount] = {}
    asked: list[tuple[Access, Iterable[Path]]] = [
        ("none", PRIVATE),
        ("write", writable),
        ("read", readable),
        ("none", hidden),
        ("empty", emptied),
    ]
    for access, paths in asked:
        for path in paths:
            real = path.resolve()
            if _exists(real):
                resolved[real] = Mount(real, access, real.is_dir())
                links |= {each.path: each for each in _links(path) if access in {"read", "write"}}
            elif access == "write":
                raise CannotStart(f"cannot start anything in {str(path)!r}: it does not exist")
    mounts = sorted(resolved.values(), key=_depth)
    mounts = [each for each in mounts if _is_needed(each, mounts)]
    missing = (each for each in links.values() if access_of(each.path, mounts) == "none")
    return tuple(sorted((*mounts, *missing), key=_depth))


def access_of(path: Path, mounts: Sequence[Mount]) -> Access:
    """Return the access to a path: that of the nearest mount above it, else `none`."""
    above = [place for place in mounts if path.is_relative_to(place.path)]
    return above[-1].access if above else "none"


def hidden_homes(home: Path) -> tuple[Path, ...]:
    """Return the homes of the factory's user, unless one contains the system itself."""
    try:
        homes = (home, Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        homes = (home, home)
    return tuple(
        each
        for each in dict.fromkeys(homes)
        if not any(system_folder.is_relative_to(each.resolve()) for system_folder in SYSTEM)
    )


def private_settings() -> tuple[Path, ...]:
    """Return what is in /etc and not for all users, as of the last minute."""
    return _private_settings(int(time.monotonic() / 60))


@functools.lru_cache(maxsize=1)
def _private_settings(_minute: int) -> tuple[Path, ...]:
    return find_private(Path("/etc"))


def find_private(folder: Path) -> tuple[Path, ...]:
    """Return what is in a folder and not for all users: a factory may be able to read it."""
    private: list[Path] = []
    folders, left = [folder], ETC_ENTRIES_MAX
    while folders and left > 0:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.is_symlink():
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if not mode & stat.S_IROTH:
                private.append(Path(entry.path))
            elif stat.S_ISDIR(mode):
                folders.append(Path(entry.path))
    return tuple(private)


def program_folders(program: Program) -> tuple[Path, ...]:
    """Return the folders that a program needs to start: those on its PATH, and its own.

    Raises CannotStart if there is no such program.
    """
    search = program.env.get("PATH", "")
    name = program.argv[0] if program.argv else ""
    path = shutil.which(str(program.cwd / name) if "/" in name else name, path=search)
    if path is None:
        raise CannotStart(f"cannot start {name!r}: there is no such program")
    on_path = [Path(folder) for folder in search.split(":") if folder.startswith("/")]
    real = Path(path).resolve()
    return (*on_path, Path(path).parent, real.parent, package_folder(real))


def toolchain_folders(home: Path) -> tuple[Path, ...]:
    """Return the folders of a home in which version managers keep toolchains."""
    return tuple(home / name for name in TOOLCHAINS if (home / name).exists())


def toolchain_credentials(home: Path) -> tuple[Path, ...]:
    """Return the settings in those folders that may have a password."""
    return tuple(path for each in TOOLCHAIN_CREDENTIALS for path in home.glob(each))


def is_home(path: Path) -> bool:
    """Return whether a path is or contains a whole home, which is never shown for a program."""
    real = path.resolve()
    home = Path.home().resolve()
    return home.is_relative_to(real) or real in HOMES or real.parent in HOMES


def package_folder(program: Path) -> Path:
    """Return the folder that a script is installed in: its virtual environment or node modules."""
    if "node_modules" in program.parts:
        return Path(*program.parts[: program.parts.index("node_modules") + 1])
    prefix = program.parent.parent
    return prefix if (prefix / "pyvenv.cfg").exists() else program.parent


def _depth(place: Mount) -> tuple[int, Path]:
    return len(place.path.parts), place.path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _is_needed(place: Mount, mounts: Sequence[Mount]) -> bool:
    """Return whether a mount changes anything: what is not shown need not be hidden."""
    above = [each for each in mounts if each != place and place.path.is_relative_to(each.path)]
    around = above[-1].access if above else "none"
    if place.access == "none":
        return around != "none" or place.path in PRIVATE
    return place.access != "read" or around != "read"


def _links(path: Path) -> Iterator[Mount]:
    """Yield the links on the way to a path: where they are not shown, they have to be made."""
    current, left = Path(path.anchor), list(reversed(path.absolute().parts[1:]))
    for _ in range(_LINKS_MAX * 10):
        if not left:
            return
        part = left.pop()
        current = current.parent if part == ".." else current / part
        if not current.is_symlink():
            continue
        target = str(current.readlink())
        yield Mount(current, "link", is_folder=False, target=target)
        left += reversed([each for each in Path(target).parts if each != "/"])
        current = Path("/") if target.startswith("/") else current.parent
