"""The environment of git: nothing from the user's settings, nothing that a repo could bring."""

import os
from collections.abc import Iterable, Mapping

import msgspec

from gigafactory.factory.core.search_path import absolute_search_path

SSH = (
    "ssh -o BatchMode=yes -o ConnectTimeout=20 -o PermitLocalCommand=no"
    " -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
)

# Each of them overrides the files, which a job may have changed.
SETTINGS: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.alternateRefsCommand", "true"),
    ("core.askPass", ""),
    ("core.pager", "cat"),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.quotePath", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.splitIndex", "false"),
    ("core.sparseCheckout", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("commit.gpgSign", "false"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("submodule.recurse", "false"),
    ("protocol.ext.allow", "never"),
    ("http.followRedirects", "false"),
    ("http.sslVerify", "true"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
)

_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_PROXY_COMMAND": "",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
    "GIT_SSH_VARIANT": "ssh",
    # Curl would read passwords from `.netrc` in HOME; ssh finds its home without HOME.
    "HOME": os.devnull,
    "LC_ALL": "C",
}

PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_PASSED_ON = (*PROXIES, "NO_PROXY", "no_proxy", "SSH_AUTH_SOCK", "TMPDIR", "SYSTEMROOT", "TEMP")
_CERTIFICATES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}


class Identity(msgspec.Struct, frozen=True):
    """The author of the factory's commits."""

    name: str = "Gigafactory"
    email: str = "factory@gigafactory.invalid"


def build_environment(
    environ: Mapping[str, str], identity: Identity, *, protocols: Iterable[str], ssh: str = SSH
) -> dict[str, str]:
    """Return the environment of git, built from the few variables that it may inherit."""
    environment = {name: environ[name] for name in _PASSED_ON if name in environ}
    environment |= {
        ours: environ[theirs] for theirs, ours in _CERTIFICATES.items() if theirs in environ
    }
    return {
        **environment,
        **_FIXED,
        "PATH": absolute_search_path(environ.get("PATH", os.defpath)),
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_SSH_COMMAND": ssh,
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
    }


def settings_variables(more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return git settings as variables: unlike arguments, other users cannot read them."""
    pairs = (*SETTINGS, *more)
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables
