"""Validates the address of a repo: which ones git may contact, and which never."""

import contextlib
import ipaddress
import re
from urllib.parse import urlsplit

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest import repo as repos
from gigafactory.domain.manifest.names import has_parent_segment
from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.git.errors import RepoNotFound
from gigafactory.factory.git.local_repo import find_repo
from gigafactory.system.ip_addresses import is_forbidden_ip

_SCP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*@(?P<host>\[[^\]]+\]|[^:/]+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)
_CHARS_MAX = 1000
_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_LOCAL_NAMES = frozenset(
    {
        "localhost",
        "ip6-localhost",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.goog",
        "metadata.google.internal",
    }
)


class AddressRefused(Refused):
    """The address of a repo is not allowed."""

    code = "address_refused"


class AllowedRemotes(msgspec.Struct, frozen=True, kw_only=True):
    """What a factory allows besides https and ssh to other machines."""

    folders: AllowedFolders = AllowedFolders()
    """Folders of this machine that may contain repos."""
    hosts: tuple[str, ...] = ()
    """Host names that may be this machine itself or link-local."""
    plain: bool = False
    """Whether unencrypted http:// and git:// are allowed."""


class RemoteAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address that git may contact."""

    url: str
    """As passed to git; never with a secret, never like an option."""
    scheme: str
    """https, ssh, http, git or file."""
    host: str | None = None
    port: int | None = None
    trusted: bool = False
    """Whether the host was allowed by name, whatever it resolves to."""

    @property
    def name(self) -> str:
        """Return the short name, as in the capability `repo:<name>`."""
        return repos.repo_name(self.url)

    def is_below(self, prefix: str) -> bool:
        """Return whether the address equals the prefix or is below it."""
        return f"{self.url}/".startswith(prefix.rstrip("/") + "/")


def parse_address(text: str, allowed: AllowedRemotes = AllowedRemotes()) -> RemoteAddress:  # noqa: B008 - frozen
    """Parse an https or ssh URL, `user@host:path`, or an absolute path in an allowed folder.

    Raises AddressRefused or Forbidden, which say what is allowed.
    """
    _check_text(text)
    if text.startswith("file://"):
        text = text.removeprefix("file://").removeprefix("localhost")
    if text.startswith("/") or _DRIVE.match(text):
        return _local(text, allowed)
    try:
        url = repos.repo(text)
    except ValueError as error:
        raise AddressRefused(f"the repo's address must be {error}") from None
    if match := _SCP.match(url):
        return _remote(url, "ssh", match["host"].strip("[]"), None, allowed)
    if "://" not in url:
        raise AddressRefused(
            f"{text!r} is not an address: use an https or ssh URL, git@host:path or absolute path"
        )
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise AddressRefused(f"{text!r} has an invalid port: use 1 to 65535") from None
    return _remote(url, parts.scheme, parts.hostname or "", port, allowed)


def _check_text(text: str) -> None:
    if not text or len(text) > _CHARS_MAX or _CONTROL.search(text):
        raise AddressRefused(
            f"the repo's address must be 1 to {_CHARS_MAX} characters, without control characters"
        )
    if text.startswith("-"):
        raise AddressRefused(f"{text[:80]!r} looks like an option: use a URL or an absolute path")


def _local(path: str, allowed: AllowedRemotes) -> RemoteAddress:
    if has_parent_segment(path):
        raise AddressRefused(f"{path!r} must be an absolute path without `..`")
    real = allowed.folders.resolve_repo(path)
    # What is no repo is noticed when it is fetched.
    with contextlib.suppress(RepoNotFound):
        owner = find_repo(real).owner
        if owner != real:
            # A linked worktree or submodule: its refs are in another repo.
            allowed.folders.resolve_repo(str(owner))
    return RemoteAddress(url=str(real), scheme="file")


def _remote(
    url: str, scheme: str, host: str, port: int | None, allowed: AllowedRemotes
) -> RemoteAddress:
    if scheme in {"http", "git"} and not allowed.plain:
        raise AddressRefused(f"{url!r} is not encrypted: use https or ssh")
    trusted = host.lower() in {name.lower() for name in allowed.hosts}
    if not trusted and (reason := _unwanted(host)):
        raise AddressRefused(
            f"{host!r} {reason}; name a host that is not this machine, or allow it by name"
        )
    return RemoteAddress(
        url=url, scheme=scheme, host=host, port=port or _PORTS[scheme], trusted=trusted
    )


def _unwanted(host: str) -> str | None:
    name = host.lower().rstrip(".")
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return "is this machine or a metadata service"
    try:
        ip = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        # Other notations of a number (127.1, 0x7f000001) are addresses to curl and ssh.
        if _NUMBER.fullmatch(name.rpartition(".")[2]):
            return "is not a name: write an IP address as four decimal numbers"
        return None
    return "is this machine or a metadata service" if is_forbidden_ip(ip) else None
