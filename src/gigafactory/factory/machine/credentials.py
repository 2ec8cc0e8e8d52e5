"""Detects which credentials a machine has, without reading them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec


class Credential(msgspec.Struct, frozen=True):
    """Where one kind of credential may be: in a variable, or in a file below the home."""

    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


CREDENTIALS: Mapping[str, Credential] = {
    "anthropic": Credential(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        (".claude/.credentials.json",),
    ),
    "openai": Credential(("OPENAI_API_KEY", "CODEX_API_KEY"), (".codex/auth.json",)),
    "gemini": Credential(("GEMINI_API_KEY", "GOOGLE_API_KEY"), (".gemini/oauth_creds.json",)),
    "openrouter": Credential(("OPENROUTER_API_KEY",)),
    "github": Credential(("GH_TOKEN", "GITHUB_TOKEN"), (".config/gh/hosts.yml",)),
    "gitlab": Credential(("GITLAB_TOKEN",), (".config/glab-cli/config.yml",)),
    "ssh": Credential(
        ("SSH_AUTH_SOCK",),
        (".ssh/id_ed25519", ".ssh/id_ecdsa", ".ssh/id_rsa", ".ssh/id_ed25519_sk"),
    ),
    "aws": Credential(("AWS_ACCESS_KEY_ID", "AWS_PROFILE"), (".aws/credentials",)),
    "azure": Credential(("AZURE_CLIENT_SECRET",), (".azure/msal_token_cache.json",)),
    "gcp": Credential(
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        (".config/gcloud/application_default_credentials.json",),
    ),
    "kubernetes": Credential(("KUBECONFIG",), (".kube/config",)),
    "npm": Credential(("NPM_TOKEN", "NODE_AUTH_TOKEN")),
    "pypi": Credential(("UV_PUBLISH_TOKEN", "TWINE_PASSWORD"), (".pypirc",)),
    "figma": Credential(("FIGMA_TOKEN", "FIGMA_ACCESS_TOKEN", "FIGMA_API_KEY")),
    "sentry": Credential(("SENTRY_AUTH_TOKEN",), (".sentryclirc",)),
}
"""Credential kinds by the name in `cred:<name>`."""


def credentials_present(
    environ: Mapping[str, str],
    is_file: Callable[[str], bool],
    known: Mapping[str, Credential] = CREDENTIALS,
) -> tuple[str, ...]:
    """Return `cred:<name>` for each kind that exists; `is_file` checks a path below the home."""
    return tuple(
        f"cred:{name}"
        for name, kind in known.items()
        if any(environ.get(variable) for variable in kind.variables)
        or any(is_file(path) for path in kind.files)
    )


def home_file_check(home: Path) -> Callable[[str], bool]:
    """Return a check for files below `home`; unreadable files do not exist."""

    def is_file(path: str) -> bool:
        try:
            return (home / path).is_file()
        except OSError:
            return False

    return is_file
