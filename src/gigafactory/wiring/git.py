"""Build the git tools of a factory: credentials, mirrors and allowed repos."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from gigafactory.config.settings import FactorySettings
from gigafactory.factory.core.allowed_folders import (
    AllowedFolders,
    forbidden_folders,
    program_folders,
)
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.written_folders import WrittenFolders
from gigafactory.factory.forges.registry import ForgeAccess, Forges
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.remote_url import AllowedRemotes
from gigafactory.factory.git.repos import Repos


class GitTools(NamedTuple):
    """Access to repos: mirrors, allowed repos and forges."""

    mirrors: Mirrors
    repos: Repos
    forges: Forges
    folders: AllowedFolders
    """The folders in which jobs may work in place."""


def build_git(settings: FactorySettings, data_dir: DataDir, environ: Mapping[str, str]) -> GitTools:
    """Return the git tools for these settings."""
    data = data_dir.root.parent
    in_place = AllowedFolders(
        roots=settings.roots,
        forbidden=forbidden_folders((data,), environ, Path.home()),
        programs=program_folders(environ),
        written=WrittenFolders(data),
    )
    base = () if settings.repos is None else (settings.repos,)
    folders = replace(in_place, roots=(*base, *settings.roots))
    forges = Forges(
        {
            host: ForgeAccess(at.token_env, at.api, at.products)
            for host, at in settings.forges.items()
        },
        environ,
    )
    git = Git(local=True, credentials=forges.git_credentials, environ=environ)
    served = Repos(
        settings.repos, settings.addresses, settings.allow_repo, AllowedRemotes(folders=folders)
    )
    return GitTools(Mirrors(data_dir.mirrors, git), served, forges, in_place)
