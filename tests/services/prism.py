"""GitHub's own description of its API, answering on loopback: any answer that it names, on demand.

It refuses what the description does not allow, and remembers nothing.
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
    """The run's shared description, as the address at which it answers."""
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
    """The description of what we use alone: the whole takes half a minute to be read."""
    paths = {path: whole["paths"][path] for path in _PATHS}
    # A ref has a slash in it, which the server would not take as a part of one name.
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
    """Let an example be what it refers to: some of the references are one level too low."""
    value = found.get("value")
    if isinstance(value, dict) and set(value) == {"$ref"}:
        found.clear()
        found.update(value)


if __name__ == "__main__":
    keep("prism", serve)
