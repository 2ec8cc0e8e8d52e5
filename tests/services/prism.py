"""Prism, a mock of GitHub's API on loopback: it serves any response of GitHub's OpenAPI document.

It rejects requests that the document does not allow, and keeps no state.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.node_packages import installed, packed, running
from tests.services.shared import keep

VERSION = "5.16.0"
DESCRIPTION = "23.0.2"

_REPO = "/repos/{owner}/{repo}"
_PATHS = (
    _REPO,
    *(
        f"{_REPO}/{path}"
        for path in (
            "branches/{branch}",
            "commits/{ref}/check-runs",
            "commits/{ref}/status",
            "compare/{basehead}",
            "git/refs/{ref}",
            "issues",
            "issues/{issue_number}",
            "issues/{issue_number}/comments",
            "issues/{issue_number}/labels",
            "issues/{issue_number}/labels/{name}",
            "pulls",
            "pulls/{pull_number}",
            "pulls/{pull_number}/merge",
            "rules/branches/{branch}",
        )
    ),
)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the shared mock of the test run and yield its address."""
    folder.mkdir(parents=True, exist_ok=True)
    file = packed("@octokit/openapi", DESCRIPTION, "generated/api.github.com.json")
    trimmed = folder / "github.json"
    trimmed.write_text(json.dumps(_trimmed(json.loads(file.read_text()))))
    program = installed("@stoplight/prism-cli", VERSION) / "dist" / "index.js"
    arguments = (str(program), "mock", "--port", "0", "--host", "127.0.0.1")
    ready = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
    with running((*arguments, str(trimmed)), folder, ready) as where:
        yield where


def _trimmed(whole: dict[str, dict[str, object]]) -> dict[str, object]:
    """Return the document with the used paths only; Prism needs 30 s to load all of it."""
    paths = {path: whole["paths"][path] for path in _PATHS}
    # A ref contains a slash, which Prism does not accept in a path parameter.
    paths[f"{_REPO}/git/refs/heads/{{ref}}"] = paths.pop(f"{_REPO}/git/refs/{{ref}}")
    parts: dict[str, dict[str, object]] = {}
    waiting: list[object] = [paths]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        if not isinstance(found, dict):
            continue
        _mend(found)
        waiting += found.values()
        if isinstance(name := found.get("$ref"), str):
            _, _, kind, key = name.split("/")[:4]
            parts.setdefault(kind, {})
            if key not in parts[kind]:
                components = whole["components"][kind]
                assert isinstance(components, dict)
                parts[kind][key] = components[key]
                waiting.append(parts[kind][key])
    return {name: whole[name] for name in ("openapi", "info")} | {
        "paths": paths,
        "components": parts,
    }


def _mend(found: dict[str, object]) -> None:
    """Move an example's `$ref` up one level; some are wrongly nested below `value`."""
    value = found.get("value")
    if isinstance(value, dict) and set(value) == {"$ref"}:
        found.clear()
        found.update(value)


if __name__ == "__main__":
    keep("prism", serve)
