"""The environment of a run's programs: an allow-list of the factory's own environment."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath

OWN_PREFIX = "AQ_"
"""The factory's own token and settings; never passed on."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

INHERITED = frozenset(
    """
    PATH LANG LANGUAGE TZ
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    GIT_SSL_CAINFO AWS_CA_BUNDLE PIP_CERT CARGO_HTTP_CAINFO
    """.split()  # noqa: SIM905 - names read best as text
)
"""Variables for finding programs, language, and network access."""

FIXED = {
    "CI": "true",
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "TERM": "dumb",
    "VISUAL": "true",
}
"""Variables that keep programs from waiting for input."""


def build_environment(  # noqa: PLR0913 - each is a fact of the run
    environ: Mapping[str, str],
    *,
    home: PurePath,
    job_id: str,
    run_id: str,
    worktree: PurePath,
    names: Iterable[str] = (),
    credentials: Iterable[str] = (),
    tmp: PurePath | None = None,
    port_base: int | None = None,
    git_ceiling: PurePath | None = None,
) -> dict[str, str]:
    """Return the complete environment of an engine, setup or verify command.

    `names` are variables of the manifest that the factory allows, `credentials` those of the
    engine. Git does not search for a repo in or above `git_ceiling`: the data folder may lie inside
    a person's repo.
    """
    wanted = {name for name in (*names, *credentials) if not name.startswith(OWN_PREFIX)}
    passed = {
        name: value
        for name, value in environ.items()
        if name in INHERITED or name.startswith("LC_") or name in wanted
    }
    own = {
        "HOME": str(home),
        "AQ_JOB_ID": job_id,
        "AQ_RUN_ID": run_id,
        "AQ_WORKTREE": str(worktree),
    }
    if tmp is not None:
        own["TMPDIR"] = str(tmp)
    if git_ceiling is not None:
        own["GIT_CEILING_DIRECTORIES"] = str(git_ceiling)
    if port_base is not None:
        own["AQ_PORT_BASE"] = str(port_base)
    return {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", **passed, **FIXED, **own}


def filter_allowed(names: Iterable[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the names that match an allowed pattern, such as `NPM_*`."""
    rules = tuple(patterns)
    return tuple(name for name in names if any(_matches(name, rule) for rule in rules))


def _matches(name: str, rule: str) -> bool:
    if name.startswith(OWN_PREFIX):
        return False
    return name.startswith(rule[:-1]) if rule.endswith("*") else name == rule
