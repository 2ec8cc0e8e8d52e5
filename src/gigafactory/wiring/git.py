"""The git of a factory, put together: its credentials, its mirrors, and which repos it serves."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gigafactory.config.settings import FactorySettings
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.forges.registry import Access, Forges
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.remote_url import Allowed
from gigafactory.factory.git.repos import Repos


class GitSide(NamedTuple):
    """What a factory needs to reach repos."""

    mirrors: Mirrors
    repos: Repos
    forges: Forges


def git_of(settings: FactorySettings, data_dir: DataDir, environ: Mapping[str, str]) -> GitSide:
    """The git side of a factory with these settings."""
    folders = (settings.repos, *settings.roots, Path.home())
    roots = tuple(str(root) for root in folders if root is not None)
    forges = Forges(
        {host: Access(at.token_env, at.api) for host, at in settings.forges.items()}, environ
    )
    git = Git(local=True, credentials=forges.git_credentials, environ=environ)
    served = Repos(settings.repos, settings.addresses, settings.allow_repo, Allowed(folders=roots))
    return GitSide(Mirrors(data_dir.mirrors, git), served, forges)
