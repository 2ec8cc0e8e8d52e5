"""Finds the forge of a repo by its host, with a token of the factory."""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import httpx
import msgspec

from gigafactory.domain.errors import Fault, Forbidden, Invalid
from gigafactory.domain.job.change import FLEET
from gigafactory.factory.forges.forge import Forge
from gigafactory.factory.forges.github import open_github
from gigafactory.factory.git.remote_url import RemoteAddress

GITHUB = "github.com"
GITHUB_API = "https://api.github.com"
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
"""Variables that may hold the token for github.com."""
ALIASES = {"ssh.github.com": GITHUB}

_SLUG = re.compile(r"(?P<owner>[A-Za-z0-9_.-]+)/(?P<name>[A-Za-z0-9_.-]+?)(?:\.git)?/?")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ForgeAccess(msgspec.Struct, frozen=True):
    """How to reach the forge of a host; without `api`, at GitHub Enterprise's usual path."""

    token_env: str
    api: str | None = None
    products: tuple[str, ...] = (FLEET,)
    """The products whose jobs may use the host; `*` for all."""


class PollingPace(msgspec.Struct, frozen=True):
    """How long to wait for checks and merges: pauses grow from the first to the longest."""

    first_s: float = 5.0
    longest_s: float = 60.0
    total_s: float = 28 * 60.0
    """Less than the ship step's timeout, so that it ends with a reason."""


class _Known(msgspec.Struct, frozen=True):
    api: str
    token: str
    products: tuple[str, ...]


class Forges:
    """The forges that this factory has a token for; other hosts are plain remotes."""

    def __init__(
        self,
        hosts: Mapping[str, ForgeAccess] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        pace: PollingPace = PollingPace(),  # noqa: B008 - frozen
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Read the tokens from the environment.

        Raises Invalid for a host whose token is missing or would be sent unencrypted.
        """
        environ = environ or {}
        access_by_host = {host.lower(): access for host, access in (hosts or {}).items()}
        usual = next((name for name in TOKENS if environ.get(name)), None)
        if usual is not None:
            access_by_host.setdefault(GITHUB, ForgeAccess(usual))
        self._hosts = {
            host: _resolve_access(host, access, environ) for host, access in access_by_host.items()
        }
        self.patience = pace
        self._transport = transport

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the tokens, to be redacted."""
        return tuple(host_access.token for host_access in self._hosts.values())

    @property
    def git_credentials(self) -> dict[str, str]:
        """Return the tokens for git over https, by URL prefix."""
        return {f"https://{host}": host_access.token for host, host_access in self._hosts.items()}

    def forge_for(self, address: RemoteAddress) -> AbstractAsyncContextManager[Forge] | None:
        """Return the forge of a repo as a context manager; None for a plain remote."""
        host_access = self._known_host(address)
        repo = repo_slug(address.url)
        if host_access is None or repo is None:
            return None
        return open_github(host_access.api, host_access.token, repo, transport=self._transport)

    def require_product(self, address: RemoteAddress, product: str) -> None:
        """Refuse a job whose product may not use the credentials of the repo's host.

        Raises Forbidden, whatever the scheme: the mirror of a repo is shared by all jobs.
        """
        host_access = self._known_host(address)
        if (
            host_access is not None
            and FLEET not in host_access.products
            and product not in host_access.products
        ):
            raise Forbidden(
                f"this factory's credentials for {address.host} do not serve product {product!r};"
                " add it to the products of that forge in the factory's settings, or use another"
                " factory"
            )

    def _known_host(self, address: RemoteAddress) -> _Known | None:
        host = (address.host or "").lower()
        return self._hosts.get(ALIASES.get(host, host))


def repo_slug(url: str) -> str | None:
    """Return the `owner/name` of a repo from any form of git URL; None if it has none."""
    path = urlsplit(url).path.lstrip("/") if "://" in url else url.partition(":")[2]
    match = _SLUG.fullmatch(path)
    return f"{match['owner']}/{match['name']}" if match else None


def _resolve_access(host: str, access: ForgeAccess, environ: Mapping[str, str]) -> _Known:
    field = f"factory.forges.{host}"
    token = environ.get(access.token_env, "").strip()
    if not _TOKEN.fullmatch(token):
        message = f"the variable {access.token_env} must hold a token; it is empty or has spaces"
        raise Invalid("the configuration", [Fault(field, message)])
    api = access.api or (GITHUB_API if host == GITHUB else f"https://{host}/api/v3")
    parts = urlsplit(api)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        message = f"api is {api!r}, which would send the token unencrypted: use an https URL"
        raise Invalid("the configuration", [Fault(field, message)])
    return _Known(api, token, access.products)
