"""Build the git tools of a factory: credentials, mirrors and allowed repos."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gigafactory.config.settings import FactorySettings
from gigafactory.factory.core.data_dir import DataDir
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


def build_git(settings: FactorySettings, data_dir: DataDir, environ: Mapping[str, str]) -> GitTools:
    """Return the git tools for these settings."""
    folders = (settings.repos, *settings.roots, Path.home())
    roots = tuple(str(root) for root in folders if root is not None)
    forges = Forges(
        {
            host: ForgeAccess(at.token_env, at.api, at.products)
            for host, at in settings.forges.items()
        },
        environ,
    )
    git = Git(local=True, credentials=forges.git_credentials, environ=environ)
    served = Repos(
        settings.repos, settings.addresses, settings.allow_repo, AllowedRemotes(folders=roots)
    )
    return GitTools(Mirrors(data_dir.mirrors, git), served, forges)
