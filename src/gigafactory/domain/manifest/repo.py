"""Checks of the repos and branches that a manifest names."""

import re
from urllib.parse import unquote

from gigafactory.domain.manifest.names import has_parent_segment, line

_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])"
_PATH = r"[A-Za-z0-9~._%/+@-]+"
_USER = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_WEB = re.compile(rf"(?:https?|git)://{_HOST}(?::[0-9]{{1,5}})?/{_PATH}")
_SSH = re.compile(rf"ssh://(?:{_USER}@)?{_HOST}(?::[0-9]{{1,5}})?/{_PATH}")
_SCP = re.compile(rf"({_USER}@{_HOST}):(?!-)({_PATH})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_SEPARATOR = re.compile(r"[/\\:]")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LOCAL_SEPARATOR = re.compile(r"[/\\]+(?:\.[/\\]+)*")
_LOCAL = re.compile(r"/|~/|[A-Za-z]:[\\/]")
_EXPECTED = "a repo's name, an https, ssh or git URL, or an absolute path"
_SCHEMES = frozenset({"https", "http", "ssh", "git"})
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def repo(text: str) -> str:
    """Return a repo name, URL or path that is safe to pass to git; ValueError says why not."""
    value = line(text, chars_max=1000)
    if value.startswith("-"):
        raise ValueError(_EXPECTED + "; one that begins with a dash would be an option")
    if _HELPER.match(value):
        raise ValueError(_EXPECTED + "; transport helpers (`name::`) run commands")
    if has_parent_segment(value):
        raise ValueError(_EXPECTED + ", without `..`")
    if match := _SCHEME.match(value):
        return _url(value, match[1])
    if not (_LOCAL.match(value) or _NAME.fullmatch(value) or _SCP.fullmatch(value)):
        raise ValueError(_EXPECTED)
    return value


def _url(value: str, scheme: str) -> str:
    if scheme not in _SCHEMES:
        raise ValueError(_EXPECTED + f"; {scheme}:// is not allowed")
    if scheme != "ssh" and "@" in value.split("/")[2]:
        raise ValueError("a URL without a user or secret: credentials belong to the factory")
    if has_parent_segment(unquote(value)):
        # Some servers and versions of curl decode it, and leave the folder of the address.
        raise ValueError("a URL without `..`, also as %2e%2e")
    if not (_WEB.fullmatch(value) or _SSH.fullmatch(value)):
        raise ValueError(f"a URL such as {scheme}://host/owner/name.git")
    return value


def repo_name(repo: str) -> str:
    """Return the short name used in the capability `repo:<name>`."""
    last = _SEPARATOR.split(repo.rstrip("/\\"))[-1].removesuffix(".git")
    return _NOT_NAME.sub("-", last).strip("-.") or "repo"


def repo_identity(repo: str) -> str:
    """Return what two spellings of one repo have in common: host and path, or the local path.

    https and ssh lead to the same repo; http and git, which anybody on the way can change, do not.
    A bare name stays a name: only the factories know where it leads.
    """
    scheme, separator, rest = repo.partition("://")
    if not separator:
        scheme = "ssh"
        if _LOCAL.match(repo):
            return _LOCAL_SEPARATOR.sub("/", repo).rstrip("/")
        if (match := _SCP.fullmatch(repo)) is None:
            return repo
        rest = f"{match[1]}/{match[2]}"
    place, _, path = rest.partition("/")
    user, _, host = place.rpartition("@")
    host = host.lower().removesuffix({"https": ":443", "ssh": ":22"}.get(scheme, ""))
    segments = [part for part in path.split("/") if part not in {"", "."}]
    path = "/".join(segments).removesuffix(".git")
    # Most hosts have one user for git; where they have several, each has repos of its own.
    who = f"{user}@" if user not in {"", "git"} else ""
    plain = f"{scheme}://" if scheme in {"http", "git"} else ""
    return f"{plain}{who}{host}/{path}"


def ref(text: str) -> str:
    """Return a valid git branch name; ValueError says what is expected."""
    value = line(text, chars_max=200)
    parts = value.split("/")
    if (
        _REF_FORBIDDEN.search(value)
        or value.startswith("-")
        or value.endswith(".")
        or value == "@"
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    ):
        raise ValueError("the name of a branch, such as main or release/2.1")
    return value
