"""Which forge a repo lives on: told by its host, and reached with a token of the factory's own."""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import httpx
import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.factory.forges.forge import Forge
from gigafactory.factory.forges.github import opened
from gigafactory.factory.git.remote_url import Address

GITHUB = "github.com"
GITHUB_API = "https://api.github.com"
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
"""Variables that github.com's token is looked for in."""
ALIASES = {"ssh.github.com": GITHUB}

_SLUG = re.compile(r"(?P<owner>[A-Za-z0-9_.-]+)/(?P<name>[A-Za-z0-9_.-]+?)(?:\.git)?/?")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Access(msgspec.Struct, frozen=True):
    """How the forge of a host is reached; without `api`, as GitHub Enterprise has it."""

    token_env: str
    api: str | None = None


class Patience(msgspec.Struct, frozen=True):
    """How long to wait for others: the pauses grow from the first to the longest."""

    first_s: float = 5.0
    longest_s: float = 60.0
    whole_s: float = 28 * 60.0
    """Less than the ship step may take, so that its end has a reason."""


class _Known(msgspec.Struct, frozen=True):
    api: str
    token: str


class Forges:
    """The forges that this factory has a token for; all other hosts are plain remotes."""

    def __init__(
        self,
        hosts: Mapping[str, Access] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Look the tokens up in the environment.

        Raises Invalid for a host whose token is not there, or that would get it unprotected.
        """
        environ = environ or {}
        found = {host.lower(): access for host, access in (hosts or {}).items()}
        usual = next((name for name in TOKENS if environ.get(name)), None)
        if usual is not None:
            found.setdefault(GITHUB, Access(usual))
        self._known = {host: _known(host, access, environ) for host, access in found.items()}
        self.patience = patience
        self._transport = transport

    @property
    def tokens(self) -> tuple[str, ...]:
        """What must never be shown."""
        return tuple(known.token for known in self._known.values())

    @property
    def git_credentials(self) -> dict[str, str]:
        """The same tokens for git over https, by the beginning of its addresses."""
        return {f"https://{host}": known.token for host, known in self._known.items()}

    def of(self, address: Address) -> AbstractAsyncContextManager[Forge] | None:
        """The forge of a repo, to be entered; None for a plain remote."""
        host = (address.host or "").lower()
        known = self._known.get(ALIASES.get(host, host))
        repo = slug(address.url)
        if known is None or repo is None:
            return None
        return opened(known.api, known.token, repo, transport=self._transport)


def slug(url: str) -> str | None:
    """The `owner/name` of a repo, in any of the ways that git is given it; None: it has none."""
    path = urlsplit(url).path.lstrip("/") if "://" in url else url.partition(":")[2]
    match = _SLUG.fullmatch(path)
    return f"{match['owner']}/{match['name']}" if match else None


def _known(host: str, access: Access, environ: Mapping[str, str]) -> _Known:
    field = f"factory.forges.{host}"
    token = environ.get(access.token_env, "").strip()
    if not _TOKEN.fullmatch(token):
        message = f"the variable {access.token_env} must hold a token; it is empty, or has spaces"
        raise Invalid("the settings", [Fault(field, message)])
    api = access.api or (GITHUB_API if host == GITHUB else f"https://{host}/api/v3")
    parts = urlsplit(api)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        message = f"api is {api!r}, where a token is not protected: use an https address"
        raise Invalid("the settings", [Fault(field, message)])
    return _Known(api, token)
