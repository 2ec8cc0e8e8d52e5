"""The folders on this machine that a job may name, as its `repo` or its `cwd`.

The operator lists them. Whatever the list says, a job gets nothing that the factory keeps, nothing
that another run can write, no dot-folder and no toolchain.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from gigafactory.domain.errors import Forbidden
from gigafactory.factory.core.search_path import absolute_search_path
from gigafactory.factory.core.written_folders import WrittenFolders

SETTING = "`factory.roots` in aq.toml"
TEMPORARY = re.compile(r"aq-[0-9a-f]{16}")
"""Temporary files of runs, as `data_dir.temp_folder` names them."""
OWN_FOLDERS = ("homes", "mirrors", "worktrees")
TOOLCHAIN_VARIABLES = tuple(
    """
    ASDF_DATA_DIR ASDF_DIR BUN_INSTALL CARGO_HOME CONDA_PREFIX DENO_INSTALL FNM_DIR GOBIN
    GOMODCACHE GOROOT JAVA_HOME JENV_ROOT MISE_DATA_DIR NVM_DIR PNPM_HOME PYENV_ROOT RBENV_ROOT
    RUSTUP_HOME SDKMAN_DIR VIRTUAL_ENV VOLTA_HOME ZSH
    """.split()  # noqa: SIM905 - names read best as text
)
TOOLCHAINS = tuple(
    """
    anaconda3 bin flutter go/bin go/pkg google-cloud-sdk Library mambaforge micromamba miniconda3
    miniforge3 node_modules perl5 snap
    """.split()  # noqa: SIM905 - names read best as text
)
"""Folders of a home whose programs other programs start, besides the dot-folders."""


class AllowedFolders(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's list of folders, and what stays forbidden below them."""

    roots: tuple[Path, ...] = ()
    forbidden: tuple[Path, ...] = ()
    """Data folders and toolchains."""
    programs: tuple[Path, ...] = ()
    """Folders with programs that the factory itself starts: no job works above them in place."""
    written: WrittenFolders | None = None
    """Folders that jobs could write: no repo in them is trusted."""

    def resolve(self, text: str) -> Path:
        """Return the real path of a folder that a job names, if the job may use it.

        Raises Forbidden, which says which folders are allowed and how to allow another.
        """
        real = Path(text).resolve()
        root = next((each for each in self._real_roots() if real.is_relative_to(each)), None)
        if root is None:
            root_list = ", ".join(map(str, self.roots)) or "none"
            raise Forbidden(
                f"{text} is not below a folder that jobs may use on this machine; allowed:"
                f" {root_list}. To allow another, add it to {SETTING}, or on a laptop name your"
                " projects folder (`aq projects DIR`), and restart the factory"
            )
        if (why := self._why_forbidden(real, root)) is not None:
            raise Forbidden(f"{text} {why}: use another folder")
        return real

    def resolve_in_place(self, text: str) -> Path:
        """Return the real path of a folder that a job names to work in it, if it may do so.

        Raises Forbidden.
        """
        real = self.resolve(text)
        git_folder = next((each for each in self._up_to_root(real) if is_git_folder(each)), None)
        if git_folder is not None:
            raise Forbidden(
                f"{text} is inside the git folder {git_folder}, whose hooks and settings git would"
                " use: name a checkout, or name the repo as `repo`"
            )
        self.require_no_programs(real)
        return real

    def require_no_programs(self, folder: Path) -> None:
        """Refuse a folder in which a job could change a program that the factory starts itself.

        Raises Forbidden.
        """
        inside = (each.resolve() for each in self.programs if each.is_dir())
        programs = next((each for each in inside if each.is_relative_to(folder)), None)
        if programs is not None:
            raise Forbidden(
                f"{folder} contains {programs}, from which this factory starts programs: start the"
                " factory without it on its PATH, or use `repo` instead of `cwd`"
            )

    def resolve_repo(self, text: str) -> Path:
        """Return the real path of a repo that a job names, if no job can have made it.

        Raises Forbidden.
        """
        real = self.resolve(text)
        outer = next((each for each in self._up_to_root(real)[1:] if is_repo(each)), None)
        if outer is not None:
            raise Forbidden(
                f"{text} is inside the checkout {outer}, into which jobs may have put it: name the"
                " checkout, or move the repo elsewhere"
            )
        if self.written is not None and (by_jobs := self.written.covering(real)) is not None:
            raise Forbidden(
                f"{text} is in {by_jobs}, where a job worked in place, so that a job may"
                " have made this repo; move the repo elsewhere, or check its git folder and remove"
                f" the line of the folder from {self.written.file}"
            )
        return real

    def _up_to_root(self, real: Path) -> list[Path]:
        """Return a path below a root and the folders above it, up to the highest root."""
        roots = tuple(self._real_roots())
        here = (real, *real.parents)
        return [each for each in here if any(each.is_relative_to(root) for root in roots)]

    def _real_roots(self) -> Iterator[Path]:
        # A root that does not exist yet may be created, also as a link.
        return (root.resolve() for root in self.roots)

    def _why_forbidden(self, real: Path, root: Path) -> str | None:
        chain = (real, *real.parents)
        if any(_is_data_folder(each) for each in chain):
            return "is inside the data folder of a factory"
        # By identity: the same folder may be mounted elsewhere, or spelled in another case.
        identities = {_identity(each) for each in chain} - {None}
        inside = next((each for each in self.forbidden if _identity(each) in identities), None)
        if inside is not None:
            return f"is inside {inside}, which no job may use"
        temporary = Path(tempfile.gettempdir()).resolve()
        if any(each.parent == temporary and TEMPORARY.fullmatch(each.name) for each in chain):
            return "belongs to a run"
        if any(part.startswith(".") for part in real.relative_to(root).parts):
            return "is in a folder whose name starts with a dot"
        return None


def forbidden_folders(
    data_folders: Iterable[Path], environ: Mapping[str, str], home: Path
) -> tuple[Path, ...]:
    """Return the folders that no job may use: data folders, toolchains, folders on PATH."""
    named = (environ.get(name, "") for name in TOOLCHAIN_VARIABLES)
    absolute = (Path(each) for each in named if Path(each).is_absolute())
    toolchains = (home / name for name in TOOLCHAINS)
    return tuple(dict.fromkeys((*data_folders, *toolchains, *absolute, *_on_path(environ))))


def program_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders from which the factory starts programs outside of the sandbox."""
    own = (Path(sys.prefix), Path(__file__).parents[2])
    return tuple(dict.fromkeys((*_on_path(environ), *own)))


def is_repo(path: Path) -> bool:
    """Return whether a folder is a checkout, or a git folder itself."""
    return os.path.lexists(path / ".git") or is_git_folder(path)


def is_git_folder(path: Path) -> bool:
    """Return whether git would take a folder for a bare repo."""
    parts = (path / "objects", path / "refs")
    return os.path.lexists(path / "HEAD") and all(each.is_dir() for each in parts)


def _on_path(environ: Mapping[str, str]) -> list[Path]:
    path = absolute_search_path(environ.get("PATH", os.defpath))
    return [Path(each) for each in path.split(os.pathsep) if each]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_data_folder(path: Path) -> bool:
    if (path / "admin.token").is_file():
        return True
    return all((path / name).is_dir() for name in OWN_FOLDERS)
